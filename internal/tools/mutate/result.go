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
	undecided verdict = "undecided"  // neither noticed nor through all stages when -cap ended it
	unbuilt   verdict = "unbuilt"    // passes the type checker, but does not compile
)

// result is the verdict on one mutant, with its reason.
type result struct {
	verdict verdict
	stage   string // the last stage: the one that noticed the mutant, or that -cap ended
	detail  string // the test, the seed or the story, or "time"
	took    time.Duration
	cpu     time.Duration // processor time
	id      string
	place   string // file:line: was → is
}

// decided reports whether there is a verdict that more time would not change.
func (r result) decided() bool { return r.verdict != "" && r.verdict != undecided }

// line returns the result as a line of the results file.
func (r result) line() string {
	words := []string{string(r.verdict), r.stage, r.detail, fmt.Sprintf("%.1f", r.took.Seconds()), fmt.Sprintf("%.1f", r.cpu.Seconds()), r.id, r.place}
	for i, w := range words {
		words[i] = strings.NewReplacer("\t", " ", "\n", " ").Replace(w)
	}
	return strings.Join(words, "\t") + "\n"
}

// String returns the result as printed while the tool runs.
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

// readResults reads a results file. If a mutant was judged several times, its last result
// counts. A file that does not exist counts as empty, and an incomplete line is skipped.
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

// count is the number of mutants by verdict.
type count map[verdict]int

// share returns the part of the mutants that were noticed, of those that could be.
func (c count) share() string {
	of := c[killed] + c[survived]
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(c[killed])/float64(of))
}

// summary adds up results.
type summary struct {
	total     count
	stages    map[string]int // mutants that each stage noticed
	packages  map[string]count
	operators map[string]count
	took, cpu []time.Duration // of each mutant
	survivors []result
}

// summarize writes a summary of results to w.
func summarize(w io.Writer, all []result) {
	s := summary{total: make(count), stages: make(map[string]int), packages: make(map[string]count), operators: make(map[string]count)}
	for _, r := range all {
		if r.verdict != unbuilt {
			s.add(r)
		}
	}
	s.write(w)
}

func (s *summary) add(r result) {
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
	note(s.packages, pkg)
	note(s.operators, op)
	s.total[r.verdict]++
	s.took, s.cpu = append(s.took, r.took), append(s.cpu, r.cpu)
	switch r.verdict {
	case killed:
		s.stages[r.stage]++
		if r.detail == byTime {
			s.stages["(of all, by their time)"]++
		}
	case survived:
		s.survivors = append(s.survivors, r)
	}
}

func (s *summary) write(w io.Writer) {
	fmt.Fprintf(w, "\n%d mutants: %d killed, %d survived, %d equivalent, %d undecided\n",
		len(s.took), s.total[killed], s.total[survived], s.total[excused], s.total[undecided])
	fmt.Fprintf(w, "killed of those that are not equivalent: %d of %d, %s\n",
		s.total[killed], s.total[killed]+s.total[survived], s.total.share())
	if len(s.took) > 0 {
		fmt.Fprintf(w, "time per mutant: %s, longest %.1fs; processor time: %s\n",
			average(s.took), slices.Max(s.took).Seconds(), average(s.cpu))
	}
	fmt.Fprintf(w, "\nkilled by:\n")
	for _, name := range slices.SortedFunc(maps.Keys(s.stages), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.stages[b], s.stages[a]), cmp.Compare(a, b))
	}) {
		fmt.Fprintf(w, "  %5d  %s\n", s.stages[name], name)
	}
	writeTable(w, "package", s.packages)
	writeTable(w, "operator", s.operators)
	if len(s.survivors) > 0 {
		fmt.Fprintf(w, "\nsurvivors:\n")
	}
	for _, r := range s.survivors {
		fmt.Fprintf(w, "  %s %s\n", r.id, r.place)
	}
}

// average returns the median and the mean of times as text.
func average(times []time.Duration) string {
	var sum time.Duration
	for _, t := range times {
		sum += t
	}
	n := len(times)
	return fmt.Sprintf("median %.1fs, mean %.1fs", slices.Sorted(slices.Values(times))[n/2].Seconds(), sum.Seconds()/float64(n))
}

func writeTable(w io.Writer, title string, rows map[string]count) {
	fmt.Fprintf(w, "\n%-12s killed survived equivalent undecided  share\n", title)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		c := rows[name]
		fmt.Fprintf(w, "%-12s %6d %8d %10d %9d  %s\n", name, c[killed], c[survived], c[excused], c[undecided], c.share())
	}
}
