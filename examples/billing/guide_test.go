package billing

import (
	"os"
	"strings"
	"testing"
)

// The guide shows the present code of this package.
func TestTheGuideShowsThisCode(t *testing.T) {
	guide, err := os.ReadFile("../../simulate/GUIDE.md")
	if err != nil {
		t.Fatal(err)
	}
	for file, from := range map[string]string{"billing.go": "// Month sends", "billing_test.go": "func TestBillsAreSentOnce"} {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, after, found := strings.Cut(string(code), from)
		if !found || !strings.Contains(string(guide), "```go\n"+from+strings.TrimRight(after, "\n")+"\n```") {
			t.Errorf("simulate/GUIDE.md does not show %s from %q on", file, from)
		}
	}
}
