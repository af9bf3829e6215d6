//go:build tools

// Package cluster keeps what is built from here among the module's requirements.
package cluster

import _ "helm.sh/helm/v4/cmd/helm"
