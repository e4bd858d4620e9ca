package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAStory(t *testing.T) {
	file := filepath.Join("..", "..", "simulate", "story", "testdata", "catalogue", "20-lost-unlock-reply.txt")
	broken := filepath.Join(t.TempDir(), "broken.txt")
	if err := os.WriteFile(broken, []byte("mesh a b c\n\na dances\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"-story " + file + " -seeds 3", exitOK, "no failure", ""},
		{"-story " + broken, exitUsage, "", broken + `:3: no sentence is like "a dances"`},
		{"-story " + broken + ".not", exitUsage, "", "broken.txt.not"},
		{"-story " + file + " -profile wan", exitUsage, "", "-profile"},
		{"-story " + file + " -marks", exitUsage, "", "-marks"},
	} {
		code, out, err := lockmesh(t, append([]string{"simulate"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(err, tt.err) {
			t.Errorf("lockmesh simulate %s: code %d\n%s\n%s\nwant %+v", tt.args, code, out, err, tt)
		}
	}
}

// The log of a story can be played again, whatever the file is called.
func TestAStoryAgain(t *testing.T) {
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("..", "..", "simulate", "story", "testdata", "catalogue", "20-lost-unlock-reply.txt"))
	if err != nil {
		t.Fatal(err)
	}
	file, log := filepath.Join(dir, "ann's story.txt"), filepath.Join(dir, "run.log")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, err := lockmesh(t, "simulate", "-story", file, "-seed", "3", "-log", log); code != exitOK {
		t.Fatalf("code %d\n%s\n%s", code, out, err)
	}
	if code, out, err := lockmesh(t, "simulate", "-replay", log); code != exitOK || !strings.Contains(out, "1 seed from 3 on") {
		t.Errorf("code %d\n%s\n%s", code, out, err)
	}
}
