package comingfrom_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockmesh/mesh"
)

// run joins the mesh of the fleet for as long as the process serves.
func run(seeds []string, serve func(*mesh.Node) error) error {
	node, err := mesh.Join(seeds) // the same list in every process
	if err != nil {
		return err
	}
	defer node.Leave(context.Background())
	return serve(node)
}

// A list that was left empty by mistake founds no mesh.
func Example() {
	err := run(nil, func(*mesh.Node) error { return nil })
	fmt.Println(errors.Is(err, mesh.ErrNoSeeds))
	// Output: true
}
