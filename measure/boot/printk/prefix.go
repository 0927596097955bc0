package printk

import (
	"strings"

	"bakeoff/base/lazy"
)

// journalLine begins a line of journalctl -o short-monotonic: the host, the program and its number.
// journalctl --no-hostname writes no host.
var (
	journalLine   = lazy.Compile(`^[^ ]+ (kernel|[^ :[]+(?:\[[0-9]+\])?): `)
	journalNoHost = lazy.Compile(`^(kernel|[^ :[]+(?:\[[0-9]+\])?): `)
	fromKernel    = lazy.Compile(`^(?:([^ ]+) )?kernel: `)
)

// journal returns the lines without what the journal writes before each message, and without those of programs.
// A line of the kernel shows that this is a journal, and the first line must have the same form. The host may get its
// name during the boot.
func (l *Log) journal(all []stampedLine) []stampedLine {
	begins, hosts, found := journalNoHost, map[string]bool{}, false
	for _, line := range all {
		if m := fromKernel.FindStringSubmatch(line.Text); m != nil {
			if hosts[m[1]] = true; !found && m[1] != "" {
				begins = journalLine
			}
			found = true
		}
	}
	delete(hosts, "")
	first := begins.FindStringSubmatch(all[0].Text)
	host, _, _ := strings.Cut(all[0].Text, " ")
	if !found || first == nil || begins == journalLine && !hosts[host] && !strings.HasSuffix(first[1], "]") {
		return all
	}
	kept := all[:0]
	for _, line := range all {
		m := begins.FindStringSubmatch(line.Text)
		host, _, _ := strings.Cut(line.Text, " ")
		switch {
		case m != nil && m[1] == "kernel":
			line.Text = line.Text[len(m[0]):]
			if who, after, ok := parseCaller([]byte(line.Text)); ok {
				line.Caller, line.Text = who, strings.TrimPrefix(string(after), " ")
			}
		case m != nil || hosts[host]:
			l.Programs++
			continue
		}
		kept = append(kept, line)
	}
	return kept
}

var (
	// known finds a message that shows what stands before it.
	known = lazy.Compile(`(?:Linux version [0-9]|Command line: |calling  [^ ]+\+0x[0-9a-f]+/0x|` +
		`initcall [^ ]+\+0x[0-9a-f]+/0x[0-9a-f]+ (?:\[[^ ]+\] )?returned )`)
	// tokens are what kernels of vendors print before a message: [cpu 0], (0), <6>, c0 1 (CPU
	// and thread), and a point, colon or blank behind it.
	tokens = lazy.Compile(`^ *(?:\[[^\]]{1,48}\]|\([^)]{1,48}\)|<[^>]{1,24}>|c[0-9]{1,3} +[0-9]{1,7}\b)[-.:,]? *`)
)

// maxUnknown bounds what can be a prefix, in bytes.
const maxUnknown = 60

// removePrefixes removes what stands between the time stamp and each message, if it is in brackets.
// The first message of a known form shows it.
func (l *Log) removePrefixes() {
	for _, line := range l.Lines {
		at := known.FindStringIndex(line.Text)
		if at == nil || at[0] > maxUnknown {
			continue
		}
		before := line.Text[:at[0]]
		if before == "" || before == "Kernel " { // Kernel command line:
			return
		}
		n, rest := 0, before
		for token := tokens.FindString(rest); token != ""; token = tokens.FindString(rest) {
			n, rest = n+1, rest[len(token):]
		}
		if rest != "" {
			l.Unknown, l.UnknownLine = before, line.Number
			return
		}
		l.cutTokens(n)
		return
	}
}

// cutTokens removes up to n tokens from each message.
func (l *Log) cutTokens(n int) {
	for i := range l.Lines {
		for range n {
			text := l.Lines[i].Text
			l.Lines[i].Text = text[len(tokens.FindString(text)):]
		}
	}
}
