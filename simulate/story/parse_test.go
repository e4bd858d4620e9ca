package story

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/lockmesh/mesh/simulate"
)

const opening = "mesh owner heir third; clients ann bob\n----\nfounded; owner leads\n\n"

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", `s.txt:1: no sentence founds a mesh`},
		{"no mesh", "ann locks k", `s.txt:1: "ann locks k" comes before the mesh`},
		{"two meshes", opening + "mesh x", `s.txt:5: a story has one mesh`},
		{"a setting that there is not", "mesh a b c; colour red", `s.txt:1: a mesh has no "colour red"`},
		{"founded at another time", "mesh a b c; founded now", `s.txt:1: a mesh has no "founded now"`},
		{"another state", "mesh a b c; state foo", `s.txt:1: a mesh has no "state foo"`},
		{"a retention that is drawn", opening + "ann does k once per 1s to 3s", `s.txt:5: once per a time`},
		{"a setting out of its kind", "mesh a b c; shards many", `s.txt:1: strconv.Atoi`},
		{"no shards", "mesh a b c; shards 0", `s.txt:1: shards 0: 1 to 4096`},
		{"an even number of replicas", "mesh a b c; replicas 2", `s.txt:1: replicas 2: 1, 3, 5 or 7`},
		{"no hosts", "mesh ; shards 1", `s.txt:1: no hosts`},
		{"a host twice", "mesh a b c; clients a", `s.txt:1: there are two hosts "a"`},
		{"a bad name", "mesh A b c", `s.txt:1: "A" is no name of a host`},
		{"a sentence that there is not", opening + "ann dances", `s.txt:5: no sentence is like "ann dances"`},
		{"a host that there is not", opening + "eve locks k", `s.txt:5: no host "eve": there are owner, heir, third, ann, bob`},
		{"a host that has not joined yet", opening + "crash dan\n\ndan joins", `s.txt:5: no host "dan"`},
		{"a host that joins twice", opening + "ann joins", `s.txt:5: there are two hosts "ann"`},
		{"a key that nobody wanted", opening + "ann unlocks k", `s.txt:5: nobody has asked for "k" yet`},
		{"a session that nobody opened", opening + "ann locks k in s", `s.txt:5: nobody has opened a session "s" yet`},
		{"a shard that there is not", opening + "ann locks k@1", `s.txt:5: the mesh has no shard 1`},
		{"messages of a shard that there is not", opening + "drop replies of k@1", `s.txt:5: the mesh has no shard 1`},
		{"too many keys", opening + "ann asks for 1000001 keys", `s.txt:5: 1000001: at most 1000000 of anything`},
		{"a range that ends before it begins", opening + "pass 2s to 1s", `s.txt:5: "2s to 1s" ends before it begins`},
		{"a condition that there is not", opening + "until ann smiles, within 1s", `s.txt:5: no condition is like "ann smiles"`},
		{"messages that there are not", opening + "drop letters to ann", `s.txt:5: there are no messages "letters"`},
		{"messages to nobody", opening + "drop replies to eve", `s.txt:5: no host "eve"`},
		{"a link that there is not", opening + "links: colour red", `s.txt:5: a link has no "colour"`},
		{"a part that is none", opening + "links: loss 101%", `s.txt:5: "101%" is not 0% to 100%`},
		{"a promise where nothing is judged", opening + "pass 1s (G5)", `s.txt:5: "pass 1s (G5)" judges nothing`},
		{"what is sent at one moment", opening + "ann asks for k\nann must hold k, and at most 3 renewals are sent", `s.txt:6: "are sent" looks from the beginning of a sentence on`},
		{"an inner sentence that there is not", opening + "after 1s: dance", `s.txt:5: no sentence is like "dance"`},
		{"an answer to nothing", opening + "----\nx", `s.txt:5: ---- with no sentence above it`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Parse("s.txt", []byte(tt.text))
			if err == nil || s != nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Parse(%q) = %v, %v, want %s", tt.text, s, err, tt.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range stories(f) {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if s, err := Parse("s.txt", text); (s == nil) == (err == nil) {
			t.Errorf("a story: %v, and an error: %v", s != nil, err)
		}
	})
}

func TestPlay(t *testing.T) {
	parse := func(text string) *Story {
		t.Helper()
		s, err := Parse("s.txt", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	const head = "# Promise: G1, a lock is\n#          one's own.\n\n"
	text := head + opening + "# A comment.\nann locks k\nbob tries k\n----\nann holds k\nbob does not get k: locked\n"
	s := parse(text)
	if got := s.Field("Promise"); got != "G1, a lock is one's own." {
		t.Errorf("the promise is %q", got)
	}
	run := s.Play(simulate.Options{Seed: 1, Timeline: true})
	if run.Err != nil || string(run.Text) != text || run.Timeline == nil || run.Duration == 0 {
		t.Errorf("a true story: %v, %v, timeline %v\n%s", run.Err, run.Duration, run.Timeline != nil, run.Text)
	}
	if again := s.Play(simulate.Options{Seed: 1}); again.Hash != run.Hash {
		t.Errorf("one seed, two runs: %x and %x", run.Hash, again.Hash)
	}

	run = parse(strings.Replace(text, "bob does not get k: locked", "bob holds k", 1)).Play(simulate.Options{Seed: 1})
	var d *Differs
	if !errors.As(run.Err, &d) || d.Line != 11 || string(run.Text) != text {
		t.Errorf("another answer: %v\n%s", run.Err, run.Text)
	}

	if run := parse(opening + "cut all -> ann\nann locks k\n----\nann waits for k\n").Play(simulate.Options{Seed: 1}); run.Err != nil {
		t.Errorf("cut off from all: %v", run.Err)
	}
	for _, later := range []string{
		"after 1s: ann campaigns for k\nann must not be elected in k\nuntil ann is elected in k, within 5s",
		"after 1s: ann pulls k\nann must not use k\nit must not be ann's turn at k\nuntil it is ann's turn at k, within 5s\nann is done with k\nann must use k\n----\nann has pulled k",
	} {
		if run := parse(opening + later).Play(simulate.Options{Seed: 1}); run.Err != nil {
			t.Errorf("who comes later: %v", run.Err)
		}
	}
	spaced, err := Parse("my story.txt", []byte(opening+"until ann leads, within 1s"))
	if err != nil {
		t.Fatal(err)
	}
	if err := spaced.Play(simulate.Options{Seed: 7}).Err; err == nil || !strings.Contains(err.Error(), "repeat: lockmesh simulate -story 'my story.txt' -seed 7") {
		t.Errorf("a story with a blank in its name: %v", err)
	}
	for _, tt := range []struct{ sentence, want string }{
		{"bob must hold k (G3 order)", "G3 order: s.txt:10: it is not so: bob must hold k"},
		{"ann must hold k, and ann must not hold k", "story: s.txt:10: it is not so: ann must hold k, and ann must not hold k"},
		{"until bob holds k, within 1s", "G6 bound: s.txt:10: not within 1s: bob holds k"},
		{"throughout 1s, k is free (G4)", "G4: s.txt:10: it is not so: k is free"},
		{"let renewals through", "story: s.txt:10: nothing happens to renewals"},
		{"who holds k", "answer: s.txt:10: got"},
	} {
		run := parse(opening + "ann locks k\nbob asks for k\n----\nann holds k\n\n" + tt.sentence).Play(simulate.Options{Seed: 1})
		if run.Err == nil || !strings.HasPrefix(run.Err.Error(), tt.want) {
			t.Errorf("%q: %v, want %s", tt.sentence, run.Err, tt.want)
		}
	}
}
