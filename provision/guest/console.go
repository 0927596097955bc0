package guest

import (
	"bytes"
	"strings"

	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
)

// signs are console lines that explain the end of a guest, the most specific
// first.
var signs = []struct {
	line *lazy.Regexp
	says string // before what the line says, without what both say
}{
	{lazy.Compile(`Out of memory and no killable processes|System is deadlocked on memory|` +
		`Initramfs unpacking failed: write error`), "the guest ran out of memory: "},
	{lazy.Compile(`bakeoff-agent: init: .*`), "the guest's init process failed: "},
	{lazy.Compile(`Kernel panic - not syncing: (.*)`), "the guest's kernel panicked: "},
	{lazy.Compile(`Out of memory: Killed process .*`), "the guest ran out of memory: "},
	{lazy.Compile(`BUG: .*|Oops: .*`), "the guest's kernel failed: "},
	// The BSDs. NetBSD puts the time before its messages. Sources: panic in
	// sys/kern/subr_prf.c of NetBSD and OpenBSD and vpanic in sys/kern/kern_shutdown.c of
	// FreeBSD; parse_mount and parse_dir_ask in sys/kern/vfs_mountroot.c of FreeBSD, which
	// also says that it tries again ("; retrying for"); setroot in sys/kern of NetBSD and
	// OpenBSD; db_command_loop in sys/ddb/db_command.c of all three.
	{lazy.Compile(`(?m)^(?:\[ *[0-9.]+\] )?panic: (.*)`), "the guest's kernel panicked: "},
	{lazy.Compile(`(?m)^Mounting from .* failed with error -?[0-9]+[.:].*`),
		"the guest's kernel could not mount the root: "},
	{lazy.Compile(`(?m)^(?:\[ *[0-9.]+\] )?(root device(?: \(default [^)]*\))?:|mountroot>) *$`),
		"the guest's kernel asks on the console for the root: "},
	{lazy.Compile(`(?m)^(?:\[ *[0-9.]+\] )?(?:.*unknown device major 0x[0-9a-f]+.*)`),
		"the guest's kernel found no root (name one with root= in append): "},
	{lazy.Compile(`(?m)^(?:\[ *[0-9.]+\] )?(init path(?: \(default [^)]*\))?:) *$`),
		"the guest's root has no /sbin/init, so its kernel asks for one on the console: "},
	{lazy.Compile(`(?m)^d?db(?:\{[0-9]+\})?> *$`), "the guest's kernel stopped in the debugger: "},
	{lazy.Compile(`.*timecounter went backwards.*`), "the guest's clock went backwards: "},
}

// prompts end the console of a guest that waits for somebody: a question for the root or for
// process 1, or a debugger after a panic.
var prompts = lazy.Compile(`(?:^|\n)(?:\[ *[0-9.]+\] )?(?:root device(?: \(default [^)]*\))?:|mountroot>|` +
	`init path(?: \(default [^)]*\))?:|d?db(?:\{[0-9]+\})?>) *$`)

// stuckReason says why a guest with this console waits for somebody; "" if it does not.
func stuckReason(console []byte) string {
	if !prompts.Match(console) {
		return ""
	}
	return Diagnose(console)
}

// excerptLines is how many lines of a console an error has, and signLines how many of
// them are from the sign on.
const (
	excerptLines = 15
	signLines    = 4
)

// Excerpt returns the last lines of a console. If the sign of its end is not among them,
// because a kernel printed a long trace after it, the excerpt begins with the sign.
func Excerpt(text []byte) string {
	last := safetext.LastLines(string(text), excerptLines)
	for _, s := range signs {
		at := s.line.FindIndex(text)
		if at == nil {
			continue
		}
		begin := bytes.LastIndexByte(text[:at[0]], '\n') + 1
		rest := text[begin:]
		if len(bytes.Split(bytes.TrimSpace(rest), []byte("\n"))) <= excerptLines {
			return last
		}
		lines := bytes.SplitAfterN(rest, []byte("\n"), signLines+1)
		return safetext.LastLines(string(bytes.Join(lines[:signLines], nil)), signLines) + "\n…\n" +
			safetext.LastLines(string(text), excerptLines-signLines)
	}
	return last
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
