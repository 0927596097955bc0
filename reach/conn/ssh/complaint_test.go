package ssh

import (
	"strings"
	"testing"
)

const changed = `@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Please contact your system administrator.
Add correct host key in /home/u/.ssh/known_hosts to get rid of this message.
Offending ED25519 key in /home/u/.ssh/known hosts:17
Host key for box has changed and you have requested strict checking.
Host key verification failed.
`

func TestComplaints(t *testing.T) {
	for name, c := range map[string]struct {
		says  string
		final bool
		text  string
	}{
		"changed key": {changed, true, "line 17 of /home/u/.ssh/known hosts"},
		"unknown key": {"No ED25519 host key is known for box and you have requested strict checking.\nHost key " +
			"verification failed.\n", true, "key is known for box"},
		"not let in":   {"root@box: Permission denied (publickey).\n", true, "Permission denied"},
		"refused":      {"ssh: connect to host box port 22: Connection refused\n", false, "Connection refused"},
		"closed":       {"some banner\nConnection to box closed by remote host.\n", false, "closed by remote host"},
		"nothing":      {"", false, "without a message"},
		"terminal art": {"\x1b[2Jssh: \x9bno\n", false, "[2Jssh:"},
	} {
		got := Complain(c.says)
		if got.Final != c.final || !strings.Contains(got.Text, c.text) || c.final != (got.Fix != "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Complain(changed); got.Known != "/home/u/.ssh/known hosts:17" {
		t.Errorf("the known key is at %q", got.Known)
	}
}

func FuzzComplain(f *testing.F) {
	f.Add(changed)
	f.Add("Offending key in :0\n")
	f.Add("Offending RSA key in a:b:3\r\n")
	f.Add("Permission denied\x00\x1b")
	f.Fuzz(func(t *testing.T, s string) {
		c := Complain(s)
		if c.Text == "" || len(c.Text) > 2000 || strings.ContainsAny(c.Text+c.Fix+c.Known, "\x00\x1b\n") {
			t.Errorf("%q made %+v", s, c)
		}
		if c.Err("box") == nil {
			t.Error("no error")
		}
	})
}

func FuzzParseHello(f *testing.F) {
	f.Add("Linux\nx86_64\n0\n/root/.cache\n/root/.local/state\n")
	f.Add("motd\nFreeBSD\namd64\n1001\n/home/u/.cache\n/home/u/.local/state\n")
	f.Add("SunOS\ni86pc\n100\n/.cache\n\n")
	f.Add("HP-UX\nia64\n0\n\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		where, err := parseHello(s)
		if err != nil {
			return
		}
		if where.goos == "" || where.goarch == "" || !strings.HasPrefix(where.cache, "/") ||
			!strings.HasPrefix(where.state, "/") {
			t.Errorf("%q made %+v", s, where)
		}
	})
}
