package simulate_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/lockmesh/mesh/internal/bug"
)

var zzBug = flag.Uint64("bug", 0, "")
var zzName = flag.String("sc", "", "")

func TestZZ(t *testing.T) {
	sc := map[string]scenario{"confirmation": confirmation, "expiryAtAppend": expiryAtAppend, "ownTermFirst": ownTermFirst, "lateFrames": lateFrames}[*zzName]
	fmt.Println(sc.play(1, bug.Set(*zzBug)))
}
