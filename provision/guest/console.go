package guest

import (
	"bytes"
	"regexp"
	"strings"

	"bakeoff/base/safetext"
)

// signs are console lines that explain the end of a guest, the most specific
// first.
var signs = []struct {
	line *regexp.Regexp
	says string // before what the line says, without what both say
}{
	{regexp.MustCompile(`Out of memory and no killable processes|System is deadlocked on memory|` +
		`Initramfs unpacking failed: write error`), "the guest ran out of memory: "},
	{regexp.MustCompile(`bakeoff-agent: init: .*`), "its init failed: "},
	{regexp.MustCompile(`Kernel panic - not syncing: (.*)`), "its kernel panicked: "},
	{regexp.MustCompile(`Out of memory: Killed process .*`), "the guest ran out of memory: "},
	{regexp.MustCompile(`BUG: .*|Oops: .*`), "its kernel failed: "},
}

// Diagnose finds the reason for the end of a guest in the text of its console;
// "" if there is none.
func Diagnose(text []byte) string {
	for _, s := range signs {
		if m := s.line.FindSubmatch(text); m != nil {
			line, _, _ := bytes.Cut(m[len(m)-1], []byte("\n"))
			return s.says + strings.TrimSpace(safetext.Line(string(line)))
		}
	}
	return ""
}
