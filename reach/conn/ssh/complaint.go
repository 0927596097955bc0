package ssh

import (
	"fmt"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lazy"
	"bakeoff/base/safetext"
)

// Complaint is why the OpenSSH client failed, read from what it printed. Its
// own messages are in English in every locale.
type Complaint struct {
	// Final says that a retry cannot succeed: a person must act.
	Final bool
	Text  string // the line with the reason
	Fix   string
	// Known is the line of a known_hosts file with a key that differs from
	// the server's: "/home/u/.ssh/known_hosts:3".
	Known string
}

// offending matches the message about a changed key (OpenSSH, sshconnect.c).
var offending = lazy.Compile(`(?m)^Offending (?:[A-Za-z0-9@.-]+ )?key(?: for IP)? in (.+:[0-9]+)\s*$`)

// finals are messages that a retry cannot change, with what helps.
var finals = []struct{ says, fix string }{
	{"key is known for", "run ssh once by hand, compare the fingerprint with the machine's own, and accept the key"},
	{"Host key verification failed",
		"run ssh once by hand, compare the fingerprint with the machine's own, and accept the key"},
	{
		"Permission denied",
		"add your key to authorized_keys on the host, and load it with ssh-add or set IdentityFile " +
			"in ~/.ssh/config; bakeoff never asks for a password",
	},
	{"Too many authentication failures", "set IdentityFile and IdentitiesOnly in ~/.ssh/config"},
	{"Bad configuration option", "correct ~/.ssh/config"},
	{"Bad owner or permissions", "correct the owner and the mode of that file"},
}

// Complain reads the client's standard error. The result always has a Text.
func Complain(stderr string) Complaint {
	if m := offending.FindStringSubmatch(stderr); m != nil {
		file, line := m[1][:strings.LastIndex(m[1], ":")], m[1][strings.LastIndex(m[1], ":")+1:]
		return Complaint{Final: true, Known: safetext.Line(m[1]),
			Text: fmt.Sprintf("the host key has changed: it differs from line %s of %s", line, safetext.Line(file)),
			Fix: fmt.Sprintf("if the machine was reinstalled, remove that line (ssh-keygen -R HOST -f %s) and run ssh "+
				"once by hand; otherwise this may be a man-in-the-middle attack", safetext.Line(file))}
	}
	for _, f := range finals {
		for line := range strings.Lines(stderr) {
			if strings.Contains(line, f.says) {
				return Complaint{Final: true, Text: brief(line), Fix: f.fix}
			}
		}
	}
	c := Complaint{Text: "ssh failed without a message"}
	for line := range strings.Lines(stderr) {
		if l := brief(line); l != "" {
			c.Text = l // the last line is the reason
		}
	}
	return c
}

// Err makes an error for target: of kind Unsupported if the complaint is final,
// of kind Lab if a retry may succeed.
func (c Complaint) Err(target string) error {
	kind := fault.Lab
	if c.Final {
		kind = fault.Unsupported
	}
	return &fault.Error{Kind: kind, Op: "ssh " + target, Err: fmt.Errorf("%s", c.Text), Fix: c.Fix}
}

// brief is a line of the client for a message.
func brief(line string) string { return safetext.Clip(safetext.Line(strings.TrimSpace(line)), 400) }
