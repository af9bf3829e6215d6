//go:build tools

// Package cluster keeps what is built from here among the module's requirements.
package cluster

import _ "github.com/opencontainers/runc"
