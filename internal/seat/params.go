package seat

import (
	"cmp"
	"time"

	"github.com/lockmesh/mesh/internal/founding"
)

// maxTTL is the MaxTTL of a mesh whose founders ask for none.
const maxTTL = 10 * time.Second

// together returns what two nodes ask for that do not contradict each other.
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
		Replicas: cmp.Or(o.Replicas, founding.DefaultReplicas), MaxTTL: cmp.Or(o.MaxTTL, maxTTL), Rho: founding.DefaultRho,
	}
}
