package seat

import (
	"cmp"

	"github.com/lockmesh/mesh/internal/founding"
)

// together returns all that two nodes ask for. They do not contradict each other.
func together(a, b founding.Options) founding.Options {
	return founding.Options{
		MeshName: cmp.Or(a.MeshName, b.MeshName), Shards: cmp.Or(a.Shards, b.Shards),
		Replicas: cmp.Or(a.Replicas, b.Replicas), MaxTTL: cmp.Or(a.MaxTTL, b.MaxTTL),
	}
}

// params returns the parameters of a mesh whose founders, all together, ask for o.
func params(o founding.Options) founding.Params {
	return founding.Params{
		MeshName: cmp.Or(o.MeshName, founding.DefaultMeshName), Shards: cmp.Or(o.Shards, founding.DefaultShards),
		Replicas: cmp.Or(o.Replicas, founding.DefaultReplicas), MaxTTL: cmp.Or(o.MaxTTL, founding.DefaultMaxTTL), Rho: founding.DefaultRho,
	}
}
