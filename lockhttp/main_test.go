package lockhttp_test

import (
	"flag"
	"os"
	"testing"
)

// The tests of this package mostly wait for leases: more of them run at a time than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
