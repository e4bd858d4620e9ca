package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// verdict is what became of a mutant.
type verdict string

const (
	killed    verdict = "killed"
	survived  verdict = "survived"
	excused   verdict = "equivalent" // survived, and equivalent.txt says why
	undecided verdict = "undecided"  // its time was over before anything noticed it
	unbuilt   verdict = "unbuilt"    // no program: the compiler knows more than the type checker
)

// result is a verdict, and how it came about.
type result struct {
	verdict verdict
	stage   string // that noticed the mutant, or in which its time was over
	detail  string // the test, the seed, the story, or "time"
	took    time.Duration
	cpu     time.Duration // of it, processor time
	id      string
	place   string // file:line: was → is
}

// decided reports whether more time would change nothing.
func (r result) decided() bool { return r.verdict != "" && r.verdict != undecided }

// line is the result in a file of results.
func (r result) line() string {
	words := []string{string(r.verdict), r.stage, r.detail, fmt.Sprintf("%.1f", r.took.Seconds()), fmt.Sprintf("%.1f", r.cpu.Seconds()), r.id, r.place}
	for i, w := range words {
		words[i] = strings.NewReplacer("\t", " ", "\n", " ").Replace(w)
	}
	return strings.Join(words, "\t") + "\n"
}

// String is the result for somebody who watches.
func (r result) String() string {
	took := fmt.Sprintf("%.1fs", r.took.Seconds())
	switch r.verdict {
	case killed:
		return fmt.Sprintf("killed by %s in %s (%s)  %s", r.stage, took, r.detail, r.id)
	case survived:
		return fmt.Sprintf("SURVIVED in %s  %s %s", took, r.id, r.place)
	case undecided:
		return fmt.Sprintf("undecided after %s, in %s  %s %s", took, r.stage, r.id, r.place)
	}
	return fmt.Sprintf("%s in %s  %s", r.verdict, took, r.id)
}

// readResults reads a file of results. Of a mutant that was judged several times the last
// result counts. No file is no results; a line that was cut off is left out.
func readResults(name string) ([]result, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []result
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		w := strings.Split(lines.Text(), "\t")
		if len(w) != 7 {
			continue
		}
		took, err1 := strconv.ParseFloat(w[3], 64)
		cpu, err2 := strconv.ParseFloat(w[4], 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, result{verdict(w[0]), w[1], w[2], seconds(took), seconds(cpu), w[5], w[6]})
	}
	return latest(all), lines.Err()
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// latest returns the last result of each mutant.
func latest(all []result) []result {
	last := make(map[string]int)
	for i, r := range all {
		last[r.id] = i
	}
	var kept []result
	for i, r := range all {
		if last[r.id] == i {
			kept = append(kept, r)
		}
	}
	return kept
}

// count is how many mutants of a kind there are, by what became of them.
type count map[verdict]int

// share is how many of those that can be noticed were.
func (c count) share() string {
	of := c[killed] + c[survived]
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(c[killed])/float64(of))
}

// summarize writes what became of all.
func summarize(w io.Writer, all []result) {
	total, stages := make(count), make(map[string]int)
	packages, operators := make(map[string]count), make(map[string]count)
	var times, work []time.Duration
	for _, r := range all {
		if r.verdict == unbuilt {
			continue
		}
		pkg, _, _ := strings.Cut(r.id, ".")
		op := ""
		if parts := strings.Split(r.id, ":"); len(parts) == 3 {
			op = parts[1]
		}
		note := func(of map[string]count, key string) {
			if of[key] == nil {
				of[key] = make(count)
			}
			of[key][r.verdict]++
		}
		note(packages, pkg)
		note(operators, op)
		total[r.verdict]++
		times, work = append(times, r.took), append(work, r.cpu)
		if r.verdict == killed {
			stages[r.stage]++
			if r.detail == "time" {
				stages["(of all, by their time)"]++
			}
		}
	}
	fmt.Fprintf(w, "\n%d mutants: %d killed, %d survived, %d equivalent, %d undecided\n",
		len(times), total[killed], total[survived], total[excused], total[undecided])
	fmt.Fprintf(w, "killed of those that are not equivalent: %d of %d, %s\n",
		total[killed], total[killed]+total[survived], total.share())
	if n := len(times); n > 0 {
		var sum, cpu time.Duration
		for i := range times {
			sum, cpu = sum+times[i], cpu+work[i]
		}
		slices.Sort(times)
		slices.Sort(work)
		fmt.Fprintf(w, "time per mutant: median %.1fs, mean %.1fs, longest %.1fs; processor time: median %.1fs, mean %.1fs\n",
			times[n/2].Seconds(), sum.Seconds()/float64(n), times[n-1].Seconds(), work[n/2].Seconds(), cpu.Seconds()/float64(n))
	}
	fmt.Fprintf(w, "\nkilled by:\n")
	for _, s := range slices.SortedFunc(maps.Keys(stages), func(a, b string) int {
		return cmp.Or(cmp.Compare(stages[b], stages[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(w, "  %5d  %s\n", stages[s], s)
	}
	table := func(title string, rows map[string]count) {
		fmt.Fprintf(w, "\n%-12s killed survived equivalent undecided  share\n", title)
		for _, name := range slices.Sorted(maps.Keys(rows)) {
			c := rows[name]
			fmt.Fprintf(w, "%-12s %6d %8d %10d %9d  %s\n", name, c[killed], c[survived], c[excused], c[undecided], c.share())
		}
	}
	table("package", packages)
	table("operator", operators)
	first := true
	for _, r := range all {
		if r.verdict == survived {
			if first {
				fmt.Fprintf(w, "\nsurvivors:\n")
				first = false
			}
			fmt.Fprintf(w, "  %s %s\n", r.id, r.place)
		}
	}
}
