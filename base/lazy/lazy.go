// Package lazy makes values at their first use, so that a program that does not need them
// starts sooner.
package lazy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression that is compiled at its first use. Its methods are those of
// regexp.Regexp.
type Regexp struct {
	text string
	re   func() *regexp.Regexp
}

// Compile returns a regular expression. Its first use panics if text is wrong. Tests compile
// at once, so the test of a package finds a mistake in any of its expressions.
func Compile(text string) *Regexp {
	r := &Regexp{text: text, re: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
	if inTest {
		r.re()
	}
	return r
}

// inTest tells whether this program is a test.
var inTest = strings.HasSuffix(strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), ".test")

// String returns the text of the expression.
func (r *Regexp) String() string { return r.text }
