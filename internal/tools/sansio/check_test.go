package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const testdata = "internal/tools/sansio/testdata/"

// wants reads what the files of a package ask for, as "file:line: rule".
func wants(t *testing.T, dir string) []string {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	want := regexp.MustCompile(`want ([a-z]+( order)?)`)
	var all []string
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(file)
		for n := 1; lines.Scan(); n++ {
			if m := want.FindStringSubmatch(lines.Text()); m != nil {
				all = append(all, fmt.Sprintf("%s:%d: %s", name, n, m[1]))
			}
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// found reduces findings to the same form, each line and rule once.
func found(findings []finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%s:%d: %s", f.pos.Filename, f.pos.Line, f.rule))
	}
	return slices.Compact(all)
}

func TestLeaksOfEveryKindAreNoticed(t *testing.T) {
	findings, _, err := check(".", module, []string{testdata + "leaky"}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, want := found(findings), wants(t, "testdata/leaky")
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("not noticed: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("noticed without need: %s", line)
		}
	}
	kinds := make(map[rule]bool)
	for _, f := range findings {
		kinds[f.rule] = true
	}
	for _, r := range []rule{
		ruleGo, ruleSelect, ruleChannel, ruleWait, ruleSync, ruleClock, ruleRandom, ruleIO, ruleMap, ruleImport, ruleUnused,
	} {
		if !kinds[r] {
			t.Errorf("testdata/leaky has no leak of the kind %q", r)
		}
	}
}

// What only a seed may decide is held to fewer rules, and to all of those.
func TestLeaksIntoSeededPackagesAreNoticed(t *testing.T) {
	findings, _, err := check(".", module, nil, []string{testdata + "leaky"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := found(findings)
	for _, line := range wants(t, "testdata/leaky") {
		_, r, _ := strings.Cut(line, ": ")
		if want := slices.Contains(leaks, rule(r)); want != slices.Contains(got, line) {
			t.Errorf("noticed: %v, want %v: %s", !want, want, line)
		}
	}
	for _, f := range findings {
		if !slices.Contains(leaks, f.rule) {
			t.Errorf("noticed without need: %v", f)
		}
	}
}

func TestPureCodePasses(t *testing.T) {
	leaves := map[string]string{testdata + "helper": "a constant"}
	findings, files, err := check(".", module, []string{testdata + "clean"}, nil, leaves, nil)
	if err != nil || len(findings) > 0 || files != 1 {
		t.Errorf("check = %v, %d files, %v, want nothing in one file", findings, files, err)
	}
}

func TestExceptionsHoldForTheirFilesOnly(t *testing.T) {
	excused := testdata + "excused"
	tests := []struct {
		name       string
		exceptions []exception
		want       []string
	}{
		{"by pattern", []exception{{excused, "mail*.go", ruleSync, ""}}, []string{"testdata/excused/table.go:3: sync"}},
		{"another rule", []exception{{excused, "*.go", ruleSync, ""}, {excused, "mailbox.go", ruleClock, ""}}, []string{"rules.go:0: unused"}},
		{"another package", []exception{{excused, "*.go", ruleSync, ""}, {"shard", "*.go", ruleSync, ""}}, []string{"rules.go:0: unused"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			findings, _, err := check(".", module, []string{excused}, nil, nil, tt.exceptions)
			if err != nil {
				t.Fatal(err)
			}
			if got := found(findings); !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}

func TestAPackageThatIsNotThereIsAnError(t *testing.T) {
	if _, _, err := check(".", module, []string{testdata + "nowhere"}, nil, nil, nil); err == nil {
		t.Error("check of a package that does not exist found nothing wrong")
	}
}

func TestEveryExceptionHasAReason(t *testing.T) {
	for _, e := range exceptions {
		if strings.TrimSpace(e.why) == "" {
			t.Errorf("%+v has none", e)
		}
	}
	for pkg, why := range leaves {
		if strings.TrimSpace(why) == "" {
			t.Errorf("%s has none", pkg)
		}
	}
}
