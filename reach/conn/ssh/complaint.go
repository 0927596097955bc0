package ssh

import (
	"fmt"
	"regexp"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/safetext"
)

// Complaint is why OpenSSH's client did not get through, read from what it
// printed. It prints its own messages in English everywhere.
type Complaint struct {
	// Final tells that trying again leads nowhere: a person must act.
	Final bool
	Text  string // the line that says it
	Fix   string
	// Known is the line of a known_hosts file that holds another key than
	// the server has: "/home/u/.ssh/known_hosts:3".
	Known string
}

// offending is the message of a key that has changed (OpenSSH, sshconnect.c).
var offending = regexp.MustCompile(`(?m)^Offending (?:[A-Za-z0-9@.-]+ )?key(?: for IP)? in (.{1,900}:[0-9]{1,9})\s*$`)

// finals are messages that no second attempt would change, with what would.
var finals = []struct{ says, fix string }{
	{"key is known for", "connect once with ssh by hand, compare the key's fingerprint with the machine's own, and accept it"},
	{"Host key verification failed", "connect once with ssh by hand, compare the key's fingerprint with the machine's own, and accept it"},
	{"Permission denied", "put a key into authorized_keys there, and load it with ssh-add or name it in ~/.ssh/config: nobody is asked for a password"},
	{"Too many authentication failures", "name the key with IdentityFile and IdentitiesOnly in ~/.ssh/config"},
	{"Bad configuration option", "mend ~/.ssh/config"},
	{"Bad owner or permissions", "mend the owner and the mode of that file"},
}

// Complain reads what the client printed on standard error. Whatever it
// printed, the answer has a text.
func Complain(stderr string) Complaint {
	if m := offending.FindStringSubmatch(stderr); m != nil {
		file, line := m[1][:strings.LastIndex(m[1], ":")], m[1][strings.LastIndex(m[1], ":")+1:]
		return Complaint{Final: true, Known: safetext.Line(m[1]),
			Text: fmt.Sprintf("the host key has changed: it is not the one in line %s of %s", line, safetext.Line(file)),
			Fix:  fmt.Sprintf("if the machine was installed anew, remove that line (ssh-keygen -R HOST -f %s) and connect once by hand; if not, somebody stands in between", safetext.Line(file))}
	}
	for _, f := range finals {
		for line := range strings.Lines(stderr) {
			if strings.Contains(line, f.says) {
				return Complaint{Final: true, Text: brief(line), Fix: f.fix}
			}
		}
	}
	c := Complaint{Text: "ssh ended without a word"}
	for line := range strings.Lines(stderr) {
		if l := brief(line); l != "" {
			c.Text = l // the last line is the one that ended it
		}
	}
	return c
}

// Err makes an error of a complaint about target: Unsupported where it is
// final, ours where it may pass.
func (c Complaint) Err(target string) error {
	kind := fault.Lab
	if c.Final {
		kind = fault.Unsupported
	}
	return &fault.Error{Kind: kind, Op: "ssh " + target, Err: fmt.Errorf("%s", c.Text), Fix: c.Fix}
}

// brief is a line of the client for a message.
func brief(line string) string { return safetext.Clip(safetext.Line(strings.TrimSpace(line)), 400) }
