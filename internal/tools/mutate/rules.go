package main

import (
	"regexp"
	"strings"
)

const module = "github.com/lockmesh/mesh"

// mutated lists the packages that are mutated, and the tests to run against their mutants:
// those before the simulator, in this order, and those after it.
var mutated = []target{
	{"shard", []suite{{pkg: "shard", short: true}, {pkg: "internal/replica", short: true}}, []suite{mesh, {pkg: "shard"}}},
	{"internal/placement", []suite{{pkg: "internal/placement"}, {pkg: "internal/replica", short: true}}, []suite{mesh}},
	{"internal/replica", []suite{{pkg: "internal/replica", short: true}, {pkg: "internal/node", short: true}}, []suite{mesh, {pkg: "internal/replica"}}},
	{"internal/client", []suite{{pkg: "internal/client", short: true}, {pkg: "internal/node", short: true}}, []suite{mesh}},
	{"internal/members", []suite{{pkg: "internal/members"}, {pkg: "internal/node", short: true}}, []suite{mesh}},
	{"internal/node", []suite{{pkg: "internal/node", short: true}}, []suite{mesh}},
	{"internal/message", []suite{{pkg: "internal/message"}, {pkg: "internal/node", short: true}}, []suite{mesh}},
	{"internal/founding", []suite{{pkg: "internal/founding"}}, []suite{mesh}},
	{".", []suite{mesh}, nil},
}

var mesh = suite{pkg: ".", short: true, real: true}

// target is one of those packages.
type target struct {
	pkg           string // relative to the module
	before, after []suite
}

// suite is the tests of one package.
type suite struct {
	pkg   string
	short bool // with -short
	real  bool // in real time: as load on the machine can make them fail, only a second failure counts
}

func (s suite) String() string {
	name := s.pkg
	if name == "." {
		name = "mesh"
	}
	if !s.short {
		return name + " long tests"
	}
	return name + " tests"
}

// In production no fault point is taken, and there are no observers. Code that only runs otherwise is not mutated.

// always lists functions whose result in production is known.
var always = map[string]truth{
	"(" + module + "/internal/point.Points).Taken": no,
}

// watchers lists the types of observers, which are nil in production.
var watchers = map[string]bool{
	module + "/internal/env.Instrumented": true,
	module + "/internal/env.Observer":     true,
	module + "/internal/env.Clients":      true,
	module + "/internal/env.Caller":       true,
	module + "/internal/env.Holder":       true,
}

// hooks lists observers' functions by struct and field, which are nil in production.
var hooks = map[string]bool{
	module + "/internal/replica.Config.Watch": true,
	module + "/internal/replica.leases.watch": true,
	module + "/shard.Table.observe":           true,
	module + "/shard.Founding.Observe":        true,
}

// tellers lists the module's functions that only log, make texts or tell observers.
var tellers = []string{
	"(*" + module + "/shard.Table).report",
	"(*" + module + "/internal/replica.Replica).tell",
	module + ".invalid", // the text of ErrInvalidOption
}

// mute matches functions that correctness does not depend on: those that log, those
// that make texts, and those that tell observers. Neither their calls nor their arguments are mutated.
var mute = regexp.MustCompile(`^(` +
	`\(\*log/slog\.Logger\)\..*|log/slog\..*|fmt\..*|errors\.New|strconv\.Quote|` + // callers compare errors by what they wrap
	strings.ReplaceAll(regexp.QuoteMeta(strings.Join(tellers, " ")), " ", "|") + `|` +
	`\(` + regexp.QuoteMeta(module) + `/internal/env\.(Observer|Clients|Caller|Holder)\)\..*|` +
	`\(\*?sync\.(RW)?Mutex\)\..*` + // without one nothing works, or only -race notices
	`)$`)

// idle matches functions that return their argument with another capacity.
var idle = regexp.MustCompile(`^(slices\.(Grow|Clip)|` + regexp.QuoteMeta(module) + `/shard\.shrink)$`)

// switches lists types of settings that correctness does not depend on. Code that sets one
// is not mutated.
var switches = map[string]bool{
	module + "/internal/point.Points": true,
	"log/slog.Logger":                 true,
}

// even matches functions whose arguments are not swapped, because a swap changes nothing or
// breaks everything.
var even = regexp.MustCompile(`^((slices|maps|bytes)\.Equal|errors\.(Is|Join)|math/rand/v2\.NewPCG|slices\.(Delete|Insert)|.*\.[aA]ppend[A-Z]\w*)$`)

// exception excludes functions from mutation, along with functions that only they call.
type exception struct {
	pkg  string // relative to the module, or * for all
	name *regexp.Regexp
	why  string
}

var exceptions = []exception{
	{"*", regexp.MustCompile(`(^|\.)(String|Error|describe\w*|Describe)$`), "texts"},
	{"shard", regexp.MustCompile(`^Table\.check(Command|Entry|Session)$`), "assertions, which only run in tests"},
	{"shard", regexp.MustCompile(`^shrink$`), "capacity"},
	{"internal/replica", regexp.MustCompile(`^squeeze$`), "fault points"},
	{"shard", regexp.MustCompile(`^Table\.(Sum|Records)$`), "for tests and for inspecting a simulation"},
	{"internal/node", regexp.MustCompile(`^(Node\.(Replicas|Break|Ready|Mesh|Messages|Asked)|shardLoop\.watch)$`), "for inspecting a simulation"},
	{"internal/message", regexp.MustCompile(`^(Name|CommandName|raftName|Result\.name)$`), "for inspecting a simulation"},
	{".", regexp.MustCompile(`^(brief|handle\.takenAt)$`), "texts of errors and of the log"},
}
