// Package shell quotes words for a POSIX shell.
package shell

import "strings"

// Quote returns s in quotes, as one word for a shell.
func Quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Word returns s as one word for a shell, in quotes only if it needs them.
func Word(s string) string {
	if s != "" && !strings.ContainsAny(s, " \t\n*?[]{}()<>|&;$`\"'\\~#!") {
		return s
	}
	return Quote(s)
}

// Split takes a line apart that consists of what Quote and Word returned.
func Split(line string) (words []string) {
	word, begun, inside := "", false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			begun, inside = true, !inside
		case c == ' ' && !inside:
			if begun {
				words = append(words, word)
			}
			word, begun = "", false
		default:
			if c == '\\' && !inside && i+1 < len(line) {
				i++
			}
			word, begun = word+string(line[i]), true
		}
	}
	if begun {
		words = append(words, word)
	}
	return words
}
