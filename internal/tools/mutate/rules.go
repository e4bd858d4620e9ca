package main

import "regexp"

const module = "github.com/lockmesh/mesh"

// mutated lists the packages that mutants are made of, relative to the module, and what
// is played against theirs: the tests of packages, in this order, before the simulator,
// and those after it.
var mutated = []target{
	{"shard", []suite{{pkg: "shard", short: true}, {pkg: "internal/replica", short: true}}, []suite{mesh, {pkg: "shard"}}},
	{"internal/placement", []suite{{pkg: "internal/placement"}, {pkg: "internal/replica", short: true}}, []suite{mesh}},
	{"internal/replica", []suite{{pkg: "internal/replica", short: true}, {pkg: "internal/node", short: true}}, []suite{mesh, {pkg: "internal/replica"}}},
	{"internal/members", []suite{{pkg: "internal/members"}, {pkg: "internal/node", short: true}}, []suite{mesh}},
	{"internal/node", []suite{{pkg: "internal/node", short: true}}, []suite{mesh}},
	{"internal/message", []suite{{pkg: "internal/message"}, {pkg: "internal/node", short: true}}, []suite{mesh}},
	{"internal/founding", []suite{{pkg: "internal/founding", short: true}}, []suite{mesh, {pkg: "internal/founding"}}},
	{".", []suite{mesh}, nil},
}

var mesh = suite{pkg: ".", short: true, real: true}

// target is one of those packages.
type target struct {
	pkg           string
	before, after []suite
}

// suite is the tests of one package.
type suite struct {
	pkg   string
	short bool // with -short
	real  bool // over real time, so that the machine's load can make them fail: they must do so twice
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

// In a program no deliberate bug is switched on, no fault point is taken, and nobody
// watches. What can only come about otherwise is not mutated.

// always are functions whose result is the same in every program.
var always = map[string]truth{
	"(" + module + "/internal/bug.Set).Has":         no,
	"(" + module + "/internal/bug.Set).Empty":       yes,
	"(*" + module + "/internal/point.Points).Taken": no,
}

// watchers are the types of those who watch: nil in every program.
var watchers = map[string]bool{
	module + "/internal/env.Instrumented": true,
	module + "/internal/env.Observer":     true,
	module + "/internal/env.Clients":      true,
	module + "/internal/env.Caller":       true,
	module + "/internal/env.Holder":       true,
}

// hooks are the functions of those who watch, by struct and field: likewise.
var hooks = map[string]bool{
	module + "/internal/replica.Watch.Applied": true,
	module + "/internal/replica.Watch.Became":  true,
	module + "/internal/replica.Watch.Stepped": true,
	module + "/shard.Table.observe":            true,
	module + "/shard.Founding.Observe":         true,
}

// mute are functions that a program does not need in order to be right: logs, and
// what makes texts. Neither their calls nor what they are given is mutated.
var mute = regexp.MustCompile(`^(` +
	`\(\*log/slog\.Logger\)\..*|log/slog\..*|fmt\..*|errors\.New|strconv\.Quote|` + // errors are told apart by what they wrap
	`\(\*` + regexp.QuoteMeta(module) + `/shard\.Table\)\.decided|` +
	`\(\*` + regexp.QuoteMeta(module) + `/internal/founding\.Machine\)\.log|` +
	`\(` + regexp.QuoteMeta(module) + `/internal/env\.(Observer|Clients|Caller|Holder)\)\..*|` +
	regexp.QuoteMeta(module) + `\.invalid|` + // the text of ErrInvalidOption
	`\(\*?sync\.(RW)?Mutex\)\..*` + // without a lock nothing works, or only -race sees it
	`)$`)

// idle are functions that return what they are given, in other room.
var idle = regexp.MustCompile(`^(slices\.(Grow|Clip)|` + regexp.QuoteMeta(module) + `/shard\.shrink)$`)

// switches are the types of settings that a program does not need to be right. What sets
// one is not mutated.
var switches = map[string]bool{
	module + "/internal/bug.Set":       true,
	module + "/internal/point.Points":  true,
	module + "/internal/replica.Watch": true,
	"log/slog.Logger":                  true,
}

// even are functions whose arguments are not swapped: because that changes nothing, or
// because nothing at all works then.
var even = regexp.MustCompile(`^((slices|maps|bytes)\.Equal|errors\.(Is|Join)|math/rand/v2\.NewPCG|slices\.(Delete|Insert)|.*\.[aA]ppend[A-Z]\w*)$`)

// exception leaves functions out, and what only they call.
type exception struct {
	pkg  string // relative to the module, or * for all
	name *regexp.Regexp
	why  string
}

var exceptions = []exception{
	{"*", regexp.MustCompile(`(^|\.)(String|Error|describe\w*|Describe)$`), "texts"},
	{"shard", regexp.MustCompile(`^Table\.check(Command|Entry|Session)$`), "assertions: they notice mutants, and only tests have them"},
	{"internal/replica", regexp.MustCompile(`^quiet\.`), "raft's log"},
	{"shard", regexp.MustCompile(`^shrink$`), "room"},
	{"internal/replica", regexp.MustCompile(`^Replica\.squeeze$`), "fault points"},
	{"shard", regexp.MustCompile(`^Table\.(Sum|Records)$`), "for tests and for those who look into a simulation"},
	{"internal/node", regexp.MustCompile(`^(Node\.(Replicas|Tables|Break|Ready|Mesh|Messages|Asked|Moments)|lane\.watch)$`), "for those who look into a simulation"},
	{"internal/message", regexp.MustCompile(`^(Name|CommandName|raftName|Result\.name|Moments)$`), "for those who look into a simulation"},
	{".", regexp.MustCompile(`^(brief|handle\.takenAt)$`), "texts of errors and of the log"},
}
