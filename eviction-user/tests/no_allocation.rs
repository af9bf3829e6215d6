//! A look must not allocate: it is taken for every kernel event, just when memory is short.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use eviction_user::host::{Children, FileSystems, GuardsAsked, NodeInventory, Scan, Watched};
use eviction_user::ports::Inventory;
use eviction_user::sys::cgroup::{CgroupDir, Hierarchy};
use eviction_user::sys::filesystem::FileSystem;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: hands everything to the system's allocator; the counter is a plain thread-local cell that
// needs no allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_look_does_not_allocate() {
    let Ok(hierarchy) = Hierarchy::detect() else {
        println!("skipped: no memory controller is mounted");
        return;
    };
    // Any cgroup with the controller will do; on v2 the root itself has no usage file.
    let root = CgroupDir::open(&hierarchy.mount).unwrap();
    let groups = [vec![root.clone()], root.children()].concat();
    let nodefs = FileSystem::at("/".as_ref()).ok();
    let inventory = groups.into_iter().find_map(|group| {
        let watched = Watched {
            file_systems: FileSystems {
                nodefs: nodefs.clone(),
                imagefs: nodefs.clone(),
                containerfs: nodefs.clone(),
            },
            scan: Scan::None,
            limits: None,
            pids: true,
            most_processes: Some(1),
            guards: GuardsAsked::ALL,
        };
        let children = Children::of(group.clone(), hierarchy.clone(), Vec::new());
        NodeInventory::open(group, hierarchy.clone(), Box::new(children), watched).ok()
    });
    let Some(mut inventory) = inventory else {
        println!("skipped: no cgroup has the memory controller");
        return;
    };
    inventory.look().unwrap();
    let before = ALLOCATIONS.get();
    for _ in 0..100 {
        inventory.look().unwrap();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
