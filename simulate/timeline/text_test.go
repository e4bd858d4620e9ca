package timeline

import (
	"strings"
	"testing"
)

const accountText = `   0.000000s  a              up
   0.000000s  a              shard 2: leader in term 3
   0.010000s  b/w            asks for "k", lock
   0.010000s  b              -> a request
   0.012000s  a              <- b request
   0.012000s  a              "k": 1 wait
   0.012000s  a              -> b granted 7
   0.015000s  b              <- a granted 7
   0.015000s  b/w            holds "k" token 7
   0.020000s  -              partition a | b
   0.040000s  b/w            lost "k" token 7: lease ended
   0.050000s  -              over: partition a | b
   0.060000s  -              FAILURE: lost too early
                             	token 7
`

func TestWriteText(t *testing.T) {
	var b strings.Builder
	if err := account().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	if b.String() != accountText {
		t.Errorf("WriteText wrote\n%s\nwant\n%s", b.String(), accountText)
	}
}

func TestLinesOfRoutineFrames(t *testing.T) {
	tl, all := account(), ""
	for i := range tl.Moments {
		all += tl.line(&tl.Moments[i])
	}
	for _, want := range []string{"0.030000s  b              -> a renewal\n", "0.031000s  a              lost from b renewal: cut\n"} {
		if !strings.Contains(all, want) {
			t.Errorf("the lines lack %q:\n%s", want, all)
		}
	}
}

func TestTextIsPlain(t *testing.T) {
	tl := &Timeline{Hosts: []string{"a"}, Moments: []Moment{
		{ID: 1, Kind: Held, Host: "a", Actor: "w\x1b[31m", Key: "\xff\n\u202e", Token: 1},
		{ID: 2, Kind: Note, Host: "a", Text: "a\tb \"c\" \\ \x00\xfe\u200b\u2028 ü 世\nnext"},
	}}
	var b strings.Builder
	if err := tl.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := `   0.000000s  a/w\x1b[31m    holds "\xff\n\u202e" token 1
   0.000000s  a              a	b "c" \ \x00\xfe\u200b\u2028 ü 世
                             next
`
	if b.String() != want {
		t.Errorf("WriteText wrote\n%q\nwant\n%q", b.String(), want)
	}
}
