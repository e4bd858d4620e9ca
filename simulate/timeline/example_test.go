package timeline_test

import (
	"fmt"
	"os"
	"time"

	"github.com/lockmesh/mesh/simulate/timeline"
)

func Example() {
	t := &timeline.Timeline{
		Title: "a cut", Repeat: "go test -run TestCut -seed 7", Seed: 7,
		Duration: 15 * time.Second, Hosts: []string{"a", "b"},
		Moments: []timeline.Moment{
			{ID: 1, At: 12 * time.Second, Kind: timeline.Fault, Host: timeline.Lab, Shard: -1, Text: "partition a | b"},
			{ID: 2, At: 13 * time.Second, Kind: timeline.Sent, Host: "b", Peer: "a", Shard: -1, Text: "request"},
			{ID: 3, Cause: 2, At: 13 * time.Second, Kind: timeline.Lost, Host: "a", Peer: "b", Frame: 2, Shard: -1, Text: "cut"},
			{ID: 4, Cause: 3, At: 14 * time.Second, Kind: timeline.Note, Host: "b", Actor: "worker", Shard: -1, Text: "gives up"},
		},
	}
	if err := t.WriteText(os.Stdout); err != nil {
		fmt.Println(err)
	}
	fmt.Println("because of", t.Chain(4))
	// Output:
	//   12.000000s  -              partition a | b
	//   13.000000s  b              -> a request
	//   13.000000s  a              lost from b request: cut
	//   14.000000s  b/worker       gives up
	// because of [2 3 4]
}
