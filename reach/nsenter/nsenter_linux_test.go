package nsenter

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"bakeoff/reach/probe"
	"bakeoff/reach/wire"
)

// A package that these do not import initializes before all packages of other
// projects. Any other import would end that: most of them import strings, which
// initializes after those.
var early = []string{"errors", "io", "io/fs", "os", "os/signal", "runtime", "strconv", "sync", "syscall", "time",
	"unsafe"}

func TestInitializesEarly(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{join .Imports \" \"}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for i := range strings.FieldsSeq(string(out)) {
		if !slices.Contains(early, i) {
			t.Errorf("package nsenter imports %s", i)
		}
	}
}

func TestSameAsElsewhere(t *testing.T) {
	if Ready != wire.PauseReady {
		t.Errorf("the init process writes %q, pause %q", Ready, wire.PauseReady)
	}
	if sysSetns != unix.SYS_SETNS || prSetNoNewPrivs != unix.PR_SET_NO_NEW_PRIVS || maxCPU != len(unix.CPUSet{})*64 {
		t.Errorf("setns is %d, no_new_privs %d, and CPUs end at %d", sysSetns, prSetNoNewPrivs, maxCPU)
	}
	flags := map[string]int{"user": unix.CLONE_NEWUSER, "cgroup": unix.CLONE_NEWCGROUP, "ipc": unix.CLONE_NEWIPC,
		"uts": unix.CLONE_NEWUTS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID, "mnt": unix.CLONE_NEWNS}
	for _, c := range clone {
		if c.flag != flags[c.name] {
			t.Errorf("the flag of %s is %#x", c.name, c.flag)
		}
	}
	for _, list := range []string{"0", "0,2-3", "5-1", "x", "1,", "-1", "0-", "63-64,127,1023", "1024", " 1"} {
		mask, ok := parseCPUs(list)
		want, err := probe.ParseCPUs(list)
		if err == nil && want[len(want)-1] >= maxCPU {
			err = unix.EINVAL
		}
		var got []int
		for c := range maxCPU {
			if mask[c/64]&(1<<(c%64)) != 0 {
				got = append(got, c)
			}
		}
		if ok != (err == nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%q was read as %v, %v, by package probe as %v, %v", list, got, ok, want, err)
		}
	}
}

func TestParse(t *testing.T) {
	e, err := Parse([]string{"-cgroup", "/a", "--cgroup=/b", "--private-mounts", "--bind", "/c:/d:e", "--pid=7",
		"--ns", "mnt,pid", "--await", "--report=false", "--env", "A=b=c", "--env=", "program", "--dir"})
	if err != nil || !slices.Equal(e.Cgroups, []string{"/a", "/b"}) || !e.private ||
		e.binds[0] != [2]string{"/c", "/d:e"} || e.pid != 7 || !e.staysAsParent() || !e.await || e.report ||
		!slices.Equal(e.env, []string{"A=b=c", ""}) || !slices.Equal(e.Argv, []string{"program", "--dir"}) {
		t.Errorf("%+v, %v", e, err)
	}
	for says, args := range map[string][]string{
		"absolute":                  {"--private-mounts", "--bind", "a:/b", "--", "x"},
		"--private-mounts":          {"--bind", "/a:/b", "--", "x"},
		"needs an argument":         {"--dir"},
		"not defined: -moon":        {"--moon", "--", "x"},
		"--pid":                     {"--pid", "x", "--", "x"},
		"can be used only together": {"--ns", "mnt", "--", "x"},
		"no program":                {"--", "--dir"},
	} {
		if says == "no program" {
			args = args[:1]
		}
		if _, err := Parse(args); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", args, err, says)
		}
	}
}

// The texts of a response come from anywhere.
func FuzzResponse(f *testing.F) {
	f.Add(127, 0, "exec: \"a\": no\nsuch \\ file\x00", int64(0))
	f.Add(137, 9, "", int64(1))
	f.Fuzz(func(t *testing.T, code, signal int, text string, clock int64) {
		var got struct {
			Code, Signal int
			Error        string
			ClockNS      int64 `json:"clock_ns"`
		}
		err := json.Unmarshal(response{code, signal, text, clock}.json(), &got)
		if err != nil || got.Code != code || got.Signal != signal || got.Error != strings.ToValidUTF8(got.Error, "") ||
			strings.ToValidUTF8(text, "") == text && got.Error != text || got.ClockNS != clock {
			t.Errorf("%d, %d, %q, %d became %+v, %v", code, signal, text, clock, got, err)
		}
	})
}

// A client may send anything.
func FuzzRequest(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x10/\x00keep\x000\x00/bin/true"))
	f.Add([]byte("\x00\x00\x00\x0f\x00clear\x001\x00A=b\x00a"))
	f.Add([]byte("\x00\x00\x00\x0a\x00keep\x009\x00a"))
	f.Add([]byte("\xff\xff\xff\xffa"))
	f.Add([]byte("\x00\x00\x00\x05clock"))
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 4 {
			return
		}
		if n := size([4]byte(data)); n != binary.BigEndian.Uint32(data) {
			t.Fatalf("%q was read as %d bytes", data[:4], n)
		}
		v, err := readRequest(size([4]byte(data)), bytes.NewReader(data[4:]))
		if err != nil {
			return
		}
		if !v.Clock && (len(v.Argv) == 0 || v.Argv[0] == "") {
			t.Errorf("%q was read as %+v", data, v)
		}
		if again, err := parseRequest(v.Text()); err != nil || !reflect.DeepEqual(again, v) {
			t.Errorf("%q was read as %+v and then as %+v, %v", data, v, again, err)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add("1 (systemd) S 0 1 1 0 -1")
	f.Add("77 (a) b ( c)) R 12 77")
	f.Add("x (y) S")
	f.Fuzz(func(t *testing.T, s string) {
		if pid, parent, ok := parseStat(s); ok && (pid < 1 || parent < 0) {
			t.Errorf("%q: process %d, parent %d", s, pid, parent)
		}
	})
}

func TestParseStat(t *testing.T) {
	if pid, parent, ok := parseStat("77 (a) b ( c)) R 12 77"); pid != 77 || parent != 12 || !ok {
		t.Errorf("got %d, %d, %v", pid, parent, ok)
	}
}
