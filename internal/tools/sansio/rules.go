package main

const module = "github.com/lockmesh/mesh"

// rule names one thing that a sans-I/O package must not do.
type rule string

const (
	ruleGo      rule = "goroutine"  // go statements
	ruleSelect  rule = "select"     // select statements
	ruleChannel rule = "channel"    // channel types, closing a channel
	ruleWait    rule = "wait"       // sending and receiving
	ruleSync    rule = "sync"       // mutexes, atomics, pools
	ruleClock   rule = "clock"      // reading the time, or waiting for it
	ruleRandom  rule = "randomness" // numbers that no seed decides
	ruleIO      rule = "io"         // files, sockets, processes, the runtime
	ruleMap     rule = "map order"  // ranging over a map
	ruleImport  rule = "import"     // packages of this module that are not pure
	ruleUnused  rule = "unused"     // an exception or a remark that nothing needs
)

// pure lists the sans-I/O packages, relative to the module.
var pure = []string{
	"ring",
	"shard",
	"internal/visit",
	"internal/node",
	"internal/client",
	"internal/founding",
	"internal/members",
	"internal/core",
	"internal/state",
	"internal/operator",
	"internal/seat",
	"internal/hosting",
	"internal/placement",
	"internal/replica",
	"internal/message",
	"internal/wire",

	// What those share with the other packages.
	"internal/fault",
	"internal/point",
	"internal/env",
}

// seeded lists the packages in which nothing but a seed may decide what happens,
// though they run coroutines, use mutexes and write files: only the rules in leaks hold.
var seeded = []string{
	"simulate",
	"simulate/internal/check",
	"simulate/internal/swim",
	"simulate/drill",
	"simulate/story",
}

// leaks are the rules of the seeded packages.
var leaks = []rule{ruleGo, ruleSelect, ruleClock, ruleRandom, ruleMap, ruleUnused}

// leaves lists what pure packages may import of this module beside each other.
var leaves = map[string]string{
	"transport": "the types of frames and handshakes; of its functions see below",
}

// exception allows one rule in some files of one package.
type exception struct {
	pkg  string // relative to the module
	file string // a pattern for filepath.Match
	rule rule
	why  string
}

var exceptions = []exception{
	// The node's edge. Its loops step on one input at a time, but their inboxes are filled, and their
	// state is looked at, from users' goroutines and the network's. A mutex there is never held over a
	// wait.
	{"internal/node", "mailbox.go", ruleSync, "anyone posts, the loop drains"},
	{"internal/node", "membership.go", ruleSync, "users' goroutines ask for members and health"},
	{"internal/replica", "batch.go", ruleSync, "counters for Stats"},
	{"internal/node", "node.go", ruleSync, "users' goroutines ask for state and counters"},
	{"internal/node", "pulse.go", ruleSync, "users' goroutines ask whether the loops hang"},
	{"internal/node", "watch.go", ruleSync, "users' goroutines end holds, and the shard loop brings them"},
	{"internal/node", "hold.go", ruleSync, "users' goroutines share a lock"},
	{"internal/node", "bell.go", ruleSync, "users' goroutines wait, and the shard loop rings"},
	{"internal/node", "pending.go", ruleSync, "callers share a request of a guest, and the shard loop brings its result"},
	{"internal/visit", "desk.go", ruleSync, "callers share a desk"},
	{"internal/visit", "guest.go", ruleSync, "callers share a guest"},
	{"internal/client", "client.go", ruleSync, "counters for Stats"},
	{"internal/client", "session.go", ruleSync, "users' goroutines share a session"},
	{"internal/client", "hold.go", ruleSync, "a holder, the watch and the client look at one deadline"},
	{"internal/client", "observer.go", ruleSync, "a user's goroutine takes the state that the client leaves"},
	{"internal/node", "shards.go", ruleIO, "the stack of a replica that panicked, for its report"},

	// What the public API promises as channels. The node closes them and never waits.
	{"internal/node", "node.go", ruleChannel, "Node.Done"},
	{"internal/node", "session.go", ruleChannel, "Session.Done"},

	// The simulator's edge, outside of its worlds.
	{"simulate", "watchdog.go", ruleGo, "it looks on from outside, and changes nothing"},
	{"simulate", "watchdog.go", ruleSelect, "it waits for real time, or for its end"},
	{"simulate", "watchdog.go", ruleClock, "it looks for what blocks in real time"},
	{"simulate", "actor.go", ruleSelect, "whether a channel is closed, without waiting"},
	{"simulate", "play.go", ruleGo, "it is waited for at once, and may end as a test does"},
}

// imports lists forbidden imports. A trailing slash forbids everything below.
var imports = map[string]rule{
	"sync":          ruleSync,
	"sync/":         ruleSync,
	"crypto/rand":   ruleRandom,
	"math/rand":     ruleRandom, // math/rand/v2 over an own source is seeded as well, and newer
	"hash/maphash":  ruleRandom,
	"os":            ruleIO,
	"os/":           ruleIO,
	"net/http":      ruleIO,
	"net/rpc":       ruleIO,
	"syscall":       ruleIO,
	"runtime":       ruleIO,
	"runtime/":      ruleIO,
	"unsafe":        ruleIO,
	"log":           ruleIO,
	"testing":       ruleIO,
	"os/signal":     ruleIO,
	"io/ioutil":     ruleIO,
	"path/filepath": ruleIO,
	"expvar":        ruleIO,
	"plugin":        ruleIO,

	"golang.org/x/sys/": ruleIO,
}

// only lists packages of which nothing may be named but what stands here.
var only = map[string]struct {
	names []string
	rule  rule
}{
	"net": {[]string{"SplitHostPort", "JoinHostPort", "ParseIP", "ParseCIDR", "IP", "IPMask", "IPNet", "AddrError", "ParseError"}, ruleIO},
}

// functions lists forbidden functions, by package; "*" stands for all but those that
// are listed with an empty rule.
var functions = map[string]map[string]rule{
	"time": {
		"Now": ruleClock, "Since": ruleClock, "Until": ruleClock, "Sleep": ruleClock,
		"After": ruleClock, "AfterFunc": ruleClock, "Tick": ruleClock,
		"NewTimer": ruleClock, "NewTicker": ruleClock,
	},
	"context": {
		"WithTimeout": ruleClock, "WithTimeoutCause": ruleClock,
		"WithDeadline": ruleClock, "WithDeadlineCause": ruleClock,
		"AfterFunc": ruleGo,
	},
	"math/rand/v2": {
		"*": ruleRandom, "New": "", "NewPCG": "", "NewChaCha8": "", "NewZipf": "",
	},
	"log/slog": {
		"Default": ruleIO, "SetDefault": ruleIO, "Debug": ruleIO, "Info": ruleIO, "Warn": ruleIO, "Error": ruleIO,
		"DebugContext": ruleIO, "InfoContext": ruleIO, "WarnContext": ruleIO, "ErrorContext": ruleIO,
		"Log": ruleIO, "LogAttrs": ruleIO, "With": ruleIO,
	},
	"fmt": {
		"Print": ruleIO, "Printf": ruleIO, "Println": ruleIO, "Scan": ruleIO, "Scanf": ruleIO, "Scanln": ruleIO,
	},
	"maps": {
		"All": ruleMap, "Keys": ruleMap, "Values": ruleMap, "DeleteFunc": ruleMap, "EqualFunc": ruleMap,
	},
	"reflect": {
		"Select": ruleSelect, "MakeChan": ruleChannel, "ChanOf": ruleChannel,
	},
	module + "/transport": {"*": ruleIO, "IsWildcard": "", "Absent": ""}, // which only look at a text, and at an error
}

// methods lists forbidden methods of types outside this module, as package, type and name.
var methods = map[string]rule{
	"reflect.Value.MapRange": ruleMap,
	"reflect.Value.MapKeys":  ruleMap,
	"reflect.Value.Seq":      ruleMap,
	"reflect.Value.Seq2":     ruleMap,
	"reflect.Value.Send":     ruleWait,
	"reflect.Value.TrySend":  ruleWait,
	"reflect.Value.Recv":     ruleWait,
	"reflect.Value.TryRecv":  ruleWait,
}
