package agent

import (
	"fmt"
	"strings"
	"testing"
)

const (
	passwdText = "root:x:0:0:root:/root:/bin/sh\n+nis\napp:x:1000:1001::/home/app:/bin/sh\nbad:x:-1:0::/:\n" +
		"none:x:7:8::relative:\n"
	groupText = "root:x:0:\napp:x:1001:\nlog:x:4:app,other\nadm:x:5:other\nextra:x:6:app\n"
)

func TestAccounts(t *testing.T) {
	for text, want := range map[string]string{
		"app":            "{1000 1001 [4 6] /home/app}",
		"1000":           "{1000 1001 [4 6] /home/app}",
		"app:log":        "{1000 4 [] /home/app}",
		"app:77":         "{1000 77 [] /home/app}",
		"0":              "{0 0 [] /root}",
		"none":           "{7 8 [] /}",
		"4242":           "{4242 0 [] /}",
		"4242:4343":      "{4242 4343 [] /}",
		"nobody":         "/etc/passwd has no such user",
		"app:none":       "/etc/group has no group",
		"bad":            "/etc/passwd has no such user",
		"":               "/etc/passwd has no such user",
		"4294967295":     "/etc/passwd has no such user",
		"app:4294967295": "/etc/group has no group",
		":5":             "/etc/passwd has no such user",
	} {
		a, err := accountOf(text, []byte(passwdText), []byte(groupText))
		got := fmt.Sprint(a)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// FuzzAccounts gives any bytes: an account has an absolute home and no number that
// means "no change".
func FuzzAccounts(f *testing.F) {
	f.Add("app:log", []byte(passwdText), []byte(groupText))
	f.Add("1000", []byte("app:x:1000"), []byte(":::"))
	f.Fuzz(func(t *testing.T, text string, passwd, group []byte) {
		a, err := accountOf(text, passwd, group)
		if err != nil {
			return
		}
		if !strings.HasPrefix(a.home, "/") || a.uid == 1<<32-1 || a.gid == 1<<32-1 {
			t.Errorf("%q: %+v", text, a)
		}
	})
}
