package main

import (
	"fmt"
	"os"

	"github.com/lockmesh/mesh/internal/shell"
	"github.com/lockmesh/mesh/simulate/search"
	"github.com/lockmesh/mesh/simulate/story"
)

// tell reads -story.
func (s *settings) tell(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("-story: %w", err)
	}
	st, err := story.Parse(file, text)
	if err != nil {
		return err
	}
	s.search.Play = st.Perform
	s.search.Options.Link = story.Link()
	s.search.Repeat = func(c search.Case) string { return commandLine(c) + " -story " + shell.Word(file) }
	s.shrink = false // there is nothing to leave out
	return nil
}
