package gvisor

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// sandbox is how the suite treats gVisor: a sandbox that exceeds its memory
// ends as a whole.
func sandbox(platform string) drivertest.Options {
	return drivertest.Options{Name: platform, Options: param.Values{"platform": platform}}
}

func TestDriver(t *testing.T) { drivertest.Run(t, Driver{}, sandbox("systrap")) }

// A runsc whose kernel fails at its start reports why and how to fix it, and
// leaves nothing.
func TestPanics(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a control group and a root: not with -short")
	}
	if a := (Driver{}).Check(t.Context(), local.Conn{}, nil); !a.OK {
		t.Skipf("needs: %s; %s", a.Reason, a.Fix)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "bakeoff-agent")
	if err := suite.BuildAgent(program); err != nil {
		t.Fatal(err)
	}
	fails := `#!/bin/sh
for a; do
	case $a in
	--version) echo runsc version of-a-test; exit;;
	--panic-log=*) printf 'panic: bad g offset\nstacks\n' >"${a#*=}";;
	esac
done
exit 2
`
	for _, d := range []string{"bin", "image", "env"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bin/runsc"), []byte(fails), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	spec := driver.Spec{Label: fmt.Sprintf("gvisor-panics-%d", os.Getpid()), Name: "panics",
		Dir: filepath.Join(dir, "env"), CPUs: 1, CPUSet: []int{0},
		Memory: 64 << 20, Image: driver.Image{Root: filepath.Join(dir, "image")}, Agent: program}
	_, err := (Driver{}).Create(t.Context(), local.Conn{}, spec)
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "panic: bad g offset") ||
		!strings.HasPrefix(fault.Fix(err), "rebuild it: ") {
		t.Errorf("%v; fix: %q", err, fault.Fix(err))
	}
	if left := drivertest.Remains(spec); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// What only gVisor has to be asked for, in one sandbox.
func TestSandbox(t *testing.T) {
	in := drivertest.Create(t, Driver{}, sandbox("systrap"))
	t.Run("clock", func(t *testing.T) { clock(t, in) })
	t.Run("limits", func(t *testing.T) { told(t, in) })
	t.Run("cancel", func(t *testing.T) { cancelled(t, in) })
}

// Its own clock passes as the host's does.
func clock(t *testing.T, in driver.Instance) {
	c, ok := in.(driver.Clocked)
	if !ok {
		t.Fatal("a kernel of its own without a clock")
	}
	read := func() time.Duration {
		d, err := c.Clock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	from := time.Now()
	a := read()
	between := time.Now()
	time.Sleep(300 * time.Millisecond)
	atLeast := time.Since(between)
	passed, atMost := read()-a, time.Since(from)
	if passed < atLeast*9/10 || passed > atMost*11/10 {
		t.Errorf("%v passed inside, between %v and %v on the host", passed, atLeast, atMost)
	}
}

// Programs inside see their limits, not the resources of the host.
func told(t *testing.T, in driver.Instance) {
	for _, c := range []struct{ command, want string }{
		{"awk '/^MemTotal/ {print $2}' /proc/meminfo", fmt.Sprint(96 << 10)}, // the suite's
		{"grep -c ^processor /proc/cpuinfo", "1"},
	} {
		var out bytes.Buffer
		exit, err := in.Exec(t.Context(), conn.Cmd{Argv: []string{"sh", "-c", c.command}, Stdout: &out})
		if got := strings.TrimSpace(out.String()); err != nil || !exit.OK() || got != c.want {
			t.Errorf("%s: %q, %v, %v; want %s", c.command, got, exit, err, c.want)
		}
	}
}

// A cancelled program dies with what has put itself into a session of its own:
// the host sees none of them.
func cancelled(t *testing.T, in driver.Instance) {
	file := in.Info().Scratch + "/beat"
	size := func() int {
		var b bytes.Buffer
		in.Pull(t.Context(), file, &b)
		return b.Len()
	}
	deadline := time.Now().Add(time.Minute)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := in.Exec(ctx, conn.Command("sh", "-c", `setsid "$0" subject beat "$1" & wait`, in.Info().Agent, file))
		ended <- err
	}()
	for size() < 3 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("it was not canceled")
	}
	for last := -1; last != size(); time.Sleep(400 * time.Millisecond) {
		if last = size(); last < 3 || time.Now().After(deadline) {
			t.Fatalf("it survives in its own session, or did not begin: %d", last)
		}
	}
}

// The Makefile builds what Check's command builds, and that command names no
// package of Debian's: there is none.
func TestMakefile(t *testing.T) {
	text, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.ReplaceAll(string(text), " \\\n\t\t", " ") // a command may take several
	want := strings.NewReplacer(Version, "$(GVISOR)", Toolchain, "$(GVISOR_GO)", " go install",
		" $(GO) install").Replace(install("$(BAKEOFF_CACHE)/bin"))
	for _, line := range []string{"GVISOR = " + Version + "\n", "GVISOR_GO = " + Toolchain + "\n", want + "\n"} {
		if !strings.Contains(lines, line) {
			t.Errorf("the Makefile has no line %q", line)
		}
	}
	if strings.Contains(want, "apt-get") {
		t.Error(want)
	}
}

// On a host without runsc the error says how to build it into the cache.
func TestCheckSaysHow(t *testing.T) {
	bin := t.TempDir() // with nothing in it
	t.Setenv("BAKEOFF_CACHE", bin)
	printenv, err := exec.LookPath("printenv")
	if err != nil {
		t.Skip("needs printenv of coreutils")
	}
	t.Setenv("PATH", filepath.Dir(printenv))
	if _, err := exec.LookPath("runsc"); err == nil {
		t.Skip("runsc lies beside printenv here")
	}
	_, err = find(t.Context(), local.Conn{})
	if !fault.Is(err, fault.NotFound) || fault.Fix(err) != install(filepath.Join(bin, "bin")) {
		t.Errorf("%v; fix: %s", err, fault.Fix(err))
	}
}

func TestRefuses(t *testing.T) {
	for name, spec := range map[string]driver.Spec{
		"platform": {Options: param.Values{"platform": "kvm"}},
		"overlay":  {Options: param.Values{"overlay": "memory"}},
	} {
		if _, err := (Driver{}).Create(t.Context(), local.Conn{}, spec); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzVersion(f *testing.F) {
	f.Add("runsc version release-20250203.0\nspec: 1.1.0-rc.1\n")
	f.Add("runsc version VERSION_MISSING\nspec: 1.1.0-rc.1\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, out string) {
		if parseVersion(out) == "" {
			t.Error("no version at all")
		}
	})
}

func TestVersion(t *testing.T) {
	for out, want := range map[string]string{
		"runsc version release-20250203.0\nspec: 1.1.0-rc.1\n": "release-20250203.0",
		"runsc version VERSION_MISSING\nspec: 1.1.0-rc.1\n":    unknown,
	} {
		if got := parseVersion(out); got != want {
			t.Errorf("%q: %q", out, got)
		}
	}
}

func BenchmarkCreate(b *testing.B) {
	for _, platform := range platforms {
		b.Run(platform, func(b *testing.B) { drivertest.Bench(b, Driver{}, sandbox(platform)) })
	}
}
