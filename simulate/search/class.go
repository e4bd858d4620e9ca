package search

import (
	"errors"
	"regexp"
	"strings"

	"github.com/lockmesh/mesh/simulate"
)

// classOf says in which way a run has failed: what its message says before the first
// colon, without numbers and texts in quotes. What a checker saw broken counts, and not
// what the scenario says that it was waiting for meanwhile. It is empty for nil.
func classOf(err error) string {
	if err == nil {
		return ""
	}
	if _, ok := errors.AsType[*Unrepeatable](err); ok {
		return "unrepeatable"
	}
	if f, ok := errors.AsType[*simulate.Failure](err); ok {
		if !errors.Is(f.Err, simulate.ErrNotWithin) {
			err = f
		}
	}
	message, _, _ := strings.Cut(err.Error(), "\n")
	if strings.Contains(message, " panicked: ") {
		return "panic"
	}
	for _, pkg := range []string{"simulate: ", "search: "} {
		message = strings.TrimPrefix(message, pkg)
	}
	message, _, _ = strings.Cut(message, ":")
	return withoutValues(message)
}

var (
	quoted = regexp.MustCompile(`"[^"]*("|$)`)
	number = regexp.MustCompile(`\b\d[\w.]*`) // or a duration
)

// withoutValues replaces each number in a message by #, and each text in quotes by "…".
func withoutValues(message string) string {
	return number.ReplaceAllString(quoted.ReplaceAllString(message, `"…"`), "#")
}
