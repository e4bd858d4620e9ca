package story

import (
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/internal/replica"
	"github.com/lockmesh/mesh/shard"
	"github.com/lockmesh/mesh/simulate"
	"github.com/lockmesh/mesh/transport"
)

func TestTheKeyOfAMessage(t *testing.T) {
	for _, tt := range []struct {
		message    message.Message
		name, want string
	}{
		{&message.Request{}, "lock k", "k"},
		{&message.Request{}, "unlock k token 7", "k"},
		{&message.Request{}, "cancel", ""},
		{&message.Reply{}, "granted lock token 7", "lock"},
		{&message.Reply{}, "queued k", "k"},
		{&message.Reply{}, "refused lock k: locked", "k"},
		{&message.Reply{}, "done before", "before"}, // nobody's key
		{&replica.Frame{}, "append 3", ""},
		{&message.Renewal{}, "renewal", ""},
	} {
		if got := (word{message: tt.message, name: tt.name}).key(); got != tt.want {
			t.Errorf("the key of %q is %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestWhatALogEntryIsCalled(t *testing.T) {
	for _, tt := range []struct {
		command shard.Command
		want    []string
	}{
		{shard.Expire{}, []string{"expiries"}},
		{shard.Silent{For: time.Second}, []string{"silences"}},
		{shard.Silent{}, nil}, // the session was heard again
	} {
		var names []string
		for _, v := range vocabulary {
			if w := (word{logged: []shard.Command{tt.command}}); v.name != "founding messages" && v.what(w) {
				names = append(names, v.name)
			}
		}
		if !slices.Equal(names, tt.want) {
			t.Errorf("%#v is called %q, want %q", tt.command, names, tt.want)
		}
	}
}

// A story can name each kind of message: none is new here, or forgotten.
func TestEveryMessageHasAName(t *testing.T) {
	data, err := os.ReadFile("../../internal/message/testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		sample, code, _ := strings.Cut(strings.TrimSpace(line), ": ")
		m, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(err)
		}
		body := append(message.AppendHeader(nil, 0), m...)
		all := words(simulate.Frame{Kind: transport.KindShard, Body: body})
		if len(all) != 1 || all[0].shard != 3 {
			t.Fatalf("%s is taken for %+v", sample, all)
		}
		all[0].name = message.Name(all[0].message, 0, func(transport.ID, uint64, uint64) string { return "lock k" })
		var names []string
		for _, v := range vocabulary {
			if v.what(all[0]) {
				names = append(names, v.name)
			}
		}
		if names = slices.DeleteFunc(names, func(n string) bool { return n == "everything" || n == "replication" }); len(names) == 0 {
			t.Errorf("there is no name for %q", all[0].name)
		}
	}
}
