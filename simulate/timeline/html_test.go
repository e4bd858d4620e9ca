package timeline

import (
	"encoding/hex"
	"encoding/json"
	"html"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockmesh/mesh/internal/message"
	"github.com/lockmesh/mesh/transport"
)

func pageOf(t testing.TB, tl *Timeline) string {
	t.Helper()
	var b strings.Builder
	if err := tl.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// hostile is a text that would do harm if a page took it for markup or script.
const hostile = `</script><script>window.harm=1</script><img src=x onerror="window.harm=1">'"<!--` + "\u2028\u202e`${window.harm=1}`"

func hostileAccount() *Timeline {
	tl := &Timeline{Title: hostile, Repeat: hostile, Hosts: []string{"a" + hostile, hostile}}
	for _, m := range []Moment{
		{Kind: Called, Key: hostile, Text: hostile, Actor: hostile},
		{Kind: Held, Begin: 1, Cause: 1, Key: hostile, Text: hostile, Actor: hostile, Token: 1},
		{Kind: Sent, Cause: 2, Peer: tl.Hosts[1], Text: hostile},
		{Kind: Lost, Frame: 3, Cause: 3, Peer: tl.Hosts[1], Text: hostile},
		{Kind: Fault, Text: hostile},
		{Kind: Property, Text: hostile},
		{Kind: Failure, Cause: 4, Text: hostile, Key: hostile},
	} {
		m.ID, m.Host = len(tl.Moments)+1, tl.Hosts[0]
		tl.Moments = append(tl.Moments, m)
	}
	return tl
}

func TestThePageHasItsOwnMarkupOnly(t *testing.T) {
	page, plain := pageOf(t, hostileAccount()), pageOf(t, account())
	for _, tag := range []string{"<script", "</script", "<img", "<!--", "<link", "<style", "</style"} {
		got, want := strings.Count(markup(page), tag), strings.Count(markup(plain), tag)
		if got != want {
			t.Errorf("%d times %q in the page of hostile texts, %d in another", got, tag, want)
		}
	}
	if n := strings.Count(page, "</script"); n != 2 {
		t.Errorf("%d ends of scripts, of 2", n)
	}
	if !strings.Contains(page, "<title>"+html.EscapeString(hostile)[:20]) {
		t.Error("the title is not escaped")
	}
	if strings.ContainsAny(page, "\u2028\u202e") {
		t.Error("signs that cannot be seen are in the page as they are")
	}
}

// markup is a page without the contents of its own script and style.
func markup(page string) string {
	page = regexp.MustCompile(`(?s)<script>"use strict".*\z`).ReplaceAllString(page, "<script></script></body></html>")
	return regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(page, "<style></style>")
}

func TestThePageForbidsItselfTheNetwork(t *testing.T) {
	page := pageOf(t, account())
	policy := html.UnescapeString(regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(page)[1])
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindStringSubmatch(page)[1]
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindStringSubmatch(page)[1]
	for _, want := range []string{"default-src 'none'", "script-src '" + digest(script) + "'", "style-src '" + digest(style) + "'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("policy %q lacks %q", policy, want)
		}
	}
	if found := regexp.MustCompile(`(?i)https?:|//[a-z]+\.|@import|url\(|src=|innerHTML|insertAdjacentHTML|outerHTML|\beval\b|new Function`).FindString(page); found != "" {
		t.Errorf("%q is in the page", found)
	}
}

func TestThePageIsTheSameEachTime(t *testing.T) {
	first := pageOf(t, account())
	if again := pageOf(t, account()); again != first {
		t.Error("two pages of one account differ")
	}
}

func TestThePagesData(t *testing.T) {
	page := pageOf(t, account())
	raw := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindStringSubmatch(page)[1]
	var got, want pageData
	if err := json.Unmarshal([]byte(raw), &got); err != nil {
		t.Fatal(err)
	}
	direct, err := json.Marshal(account().pageData())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(direct, &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the page has %+v, want %+v", got, want)
	}
	if got.End != 9*time.Second || got.Seed != "1" || !reflect.DeepEqual(got.Faults, [][]int{{10, 14, 0, 1}}) ||
		!reflect.DeepEqual(got.Holds, [][3]int{{9, 13, 0}}) || !reflect.DeepEqual(got.Violation, []int{15}) {
		t.Errorf("the page has %+v", got)
	}
	at := time.Duration(0)
	for i, m := range account().Moments {
		field := func(name string) int { return got.Moments[i][slices.Index(got.Fields, name)] }
		at += time.Duration(got.Waits[i])
		if at != m.At || field("kind") != int(m.Kind) || field("cause") != m.Cause || field("link") != max(m.Frame, m.Begin) ||
			field("shard") != m.Shard || got.Texts[field("says")] != account().says(&m) || got.Texts[field("actor")] != m.Actor {
			t.Errorf("moment %d is not the one that was given", m.ID)
		}
	}
}

// No kind of message is new here.
func TestEveryMessageHasAClass(t *testing.T) {
	data, err := os.ReadFile("../../internal/message/testdata/messages.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		_, code, _ := strings.Cut(strings.TrimSpace(line), ": ")
		m, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(err)
		}
		var r message.Reader
		r.Reset(append(message.AppendHeader(nil, 0), m...), 4)
		if !r.Next() {
			t.Fatal(r.Err())
		}
		name := message.Name(r.Message, 0, func(transport.ID, uint64, uint64) string { return "lock k" })
		tl := &Timeline{Hosts: []string{"a", "b"}, Moments: []Moment{{ID: 1, Kind: Sent, Host: "a", Peer: "b", Text: name}}}
		if tl.classOf(&tl.Moments[0]) == otherClass {
			t.Errorf("%q is of no class", name)
		}
	}
}

func TestFramesAreOfTheClassOfWhatMatters(t *testing.T) {
	for text, want := range map[string]class{
		"lock k": lockClass, "append 1, granted k token 7": lockClass, "refused lock k: locked": lockClass, "done before": lockClass,
		"renewal": leaseClass, "renewal answered, heartbeat": leaseClass,
		"append 3": logClass, "heartbeat answered": logClass, "snapshot chunk": logClass, "you are removed": logClass,
		"table's digest": logClass, "no vote for me": electionClass, "prevote term 4": electionClass, "append 1, vote given": electionClass, "I lead": electionClass,
		"gossip": memberClass, "leaving": memberClass, "core: told": memberClass, "core: refused": memberClass,
		"hello": otherClass, "": otherClass,
	} {
		tl := &Timeline{Hosts: []string{"a", "b"}, Moments: []Moment{
			{ID: 1, Kind: Sent, Host: "a", Peer: "b", Text: text}, {ID: 2, Kind: Arrived, Host: "b", Peer: "a", Frame: 1},
		}}
		for i := range tl.Moments {
			if got := tl.classOf(&tl.Moments[i]); got != want {
				t.Errorf("%q: moment %d is of class %d, want %d", text, i+1, got, want)
			}
		}
	}
}

// The page's script takes every list for one.
func TestThePagesDataHasNoNull(t *testing.T) {
	for _, tl := range []*Timeline{{}, {Hosts: []string{"a"}}, account()} {
		data, err := json.Marshal(tl.pageData())
		if err != nil || strings.Contains(string(data), "null") {
			t.Errorf("%s, %v", data, err)
		}
	}
}

func TestWriteHTMLRefusesABrokenAccount(t *testing.T) {
	broken := account()
	broken.Moments[3].Cause = 4
	var b strings.Builder
	if err := broken.WriteHTML(&b); err == nil || b.Len() > 0 {
		t.Errorf("%v, and wrote %d bytes", err, b.Len())
	}
}

// The page has the moments that a failure's text tells of.
func TestThePageHasTheExcerpt(t *testing.T) {
	tl := account()
	if got, want := tl.pageData().Excerpt, tl.excerpt(FailureMoments); len(got) < 3 || !reflect.DeepEqual(got, want) {
		t.Errorf("the page tells of moments %v, want %v", got, want)
	}
	tl.Moments = tl.Moments[:len(tl.Moments)-1]
	if got := tl.pageData().Excerpt; len(got) > 0 {
		t.Errorf("of a run that passed it tells %v", got)
	}
}
