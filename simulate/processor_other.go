//go:build !unix

package simulate

import (
	"runtime/metrics"
	"time"
)

// processorTime returns how much processor time this process has used. Here it is what the
// Go runtime believes, which counts as used what other processes took meanwhile.
func processorTime() time.Duration {
	used := []metrics.Sample{{Name: "/cpu/classes/user:cpu-seconds"}}
	metrics.Read(used)
	return time.Duration(used[0].Value.Float64() * float64(time.Second))
}
