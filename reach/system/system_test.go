package system_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/system"
	"bakeoff/reach/system/all"
	"bakeoff/reach/system/systemtest"
)

// The os-release files are those of the systems, shortened.
func TestIdentify(t *testing.T) {
	for want, m := range map[string]systemtest.Machine{
		"debian":    linux("PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n"),
		"debian ":   linux("ID=ubuntu\nID_LIKE=debian\nUBUNTU_CODENAME=noble\n"),
		"debian  ":  linux("ID=raspbian\nID_LIKE='debian'\n"),
		"alpine":    linux("NAME=\"Alpine Linux\"\nID=alpine\n"),
		"void":      linux("NAME=\"Void\"\nID=\"void\"\nANSI_COLOR=\"0;38;2;71;128;97\"\n"),
		"freebsd":   kernel("FreeBSD", "FreeBSD 14.2-RELEASE"),
		"openbsd":   kernel("OpenBSD", "GENERIC.MP#338"),
		"netbsd":    kernel("NetBSD", "NetBSD 10.1 (GENERIC)"),
		"dragonfly": kernel("DragonFly", "DragonFly v6.4.0"),
		"smartos":   kernel("SunOS", "joyent_20250403T000000Z"),
		"":          linux("ID=fedora\n"),
		" ":         kernel("Haiku", "hrev57937"),
	} {
		id, err := system.Identify(t.Context(), &m)
		if err != nil {
			t.Fatalf("%s: %v", want, err)
		}
		s, ok := system.Of(all.Systems(), id)
		if got := strings.TrimSpace(want); ok != (got != "") || ok && s.Doc().Name != got {
			t.Errorf("%+v is taken for %v, %v; %q is right", id, s, ok, got)
		}
	}
}

func kernel(name, version string) systemtest.Machine {
	return systemtest.Machine{Says: map[string]systemtest.Answer{"uname -s": {Stdout: name + "\n"},
		"uname -v": {Stdout: version + "\n"}}}
}

func linux(release string) systemtest.Machine {
	m := kernel("Linux", "#1 SMP")
	m.Files = map[string]string{"/etc/os-release": release}
	return m
}

func TestInstallLines(t *testing.T) {
	for name, want := range map[string]string{
		"debian":  "apt-get install -y --no-install-recommends nginx postgresql-contrib",
		"alpine":  "apk add nginx postgresql-contrib",
		"openbsd": "pkg_add -I nginx postgresql-contrib",
		"smartos": "pkgin -y install nginx postgresql16-client",
	} {
		for _, s := range all.Systems() {
			if s.Doc().Name == name && s.Doc().InstallPrograms("nginx", "pgbench", "sh") != want {
				t.Errorf("%s: %q, and %q is right", name, s.Doc().InstallPrograms("nginx", "pgbench", "sh"), want)
			}
		}
	}
}

func TestParseRelease(t *testing.T) {
	got, err := system.ParseRelease(
		[]byte("# a comment\n\nID=debian\nNAME=\"a \\\"b\\\" \\$c \\d\"\nX='y \"z\"'\nEMPTY=\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"ID": "debian", "NAME": `a "b" $c \d`, "X": `y "z"`, "EMPTY": ""} {
		if got[name] != want {
			t.Errorf("%s is %q, and %q is right", name, got[name], want)
		}
	}
	for text, says := range map[string]string{"ID=debian\nnothing\n": "line 2", "=x": "line 1", "A=\"x": "closing quote",
		"A B=c": "line 1"} {
		if _, err := system.ParseRelease([]byte(text)); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: error is %v", text, err)
		}
	}
}

func FuzzParseRelease(f *testing.F) {
	f.Add([]byte("ID=debian\nID_LIKE=\"a b\"\n"))
	f.Add([]byte("A='\nB=\"\\\"\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := system.ParseRelease(text)
		if (err == nil) == (m == nil) {
			t.Errorf("%q gives %v and %v", text, m, err)
		}
	})
}

// counting becomes ready at the third question.
type counting struct {
	system.System
	asked *int
}

func (c counting) Ready(context.Context, conn.Conn) (bool, error) {
	*c.asked++
	return *c.asked == 3, nil
}

func TestWait(t *testing.T) {
	asked := 0
	if err := system.Wait(t.Context(), counting{all.Systems()[0], &asked}, nil, time.Microsecond); err != nil ||
		asked != 3 {
		t.Errorf("after %d questions: %v", asked, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	asked = 4
	if err := system.Wait(ctx, counting{all.Systems()[0], &asked}, nil, time.Microsecond); !fault.Is(err, fault.Subject) {
		t.Errorf("one that never is: %v", err)
	}
}
