package cgroup

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/unit"
	"bakeoff/reach/conn/local"
)

const mountinfo = "22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw\n" +
	"30 22 0:25 / /tmp rw - tmpfs tmpfs rw\n31 22 8:16 / /srv/my\\040lab rw shared:7 - xfs /dev/sdb rw\n32 22 0:40 /sub " +
	"/data rw - btrfs /dev/sdc rw\n"

func TestDeviceOf(t *testing.T) {
	for at, want := range map[string]string{"/var/lib": "254:1 ext4", "/tmp/x": "0:25 tmpfs", "/tmpx": "254:1 ext4",
		"/srv/my lab/env": "8:16 xfs", "/data": "0:40 btrfs"} {
		if device, kind := deviceOf(mountinfo, at); device+" "+kind != want {
			t.Errorf("%s is on %s %s, want %s", at, device, kind, want)
		}
	}
	if device, _ := deviceOf("22 1 8:x / / rw - ext4 a rw\nnothing\n", "/"); device != "" {
		t.Errorf("%q is not a device", device)
	}
}

func FuzzDeviceOf(f *testing.F) {
	f.Add(mountinfo, "/srv")
	f.Add("1 1 ../..:1 / / rw - a", "/")
	f.Fuzz(func(t *testing.T, text, at string) {
		if device, _ := deviceOf(text, at); strings.ContainsAny(device, "/. ") {
			t.Errorf("%q is not a device", device)
		}
	})
}

func TestIOFiles(t *testing.T) {
	l := IO{Read: 5, Write: 7}
	if got := fmt.Sprint(ioFiles("8:0", l, true)); got != "[[io.max 8:0 rbps=5 wbps=7]]" {
		t.Error(got)
	}
	if got := fmt.Sprint(ioFiles("8:0", IO{Write: 7}, false)); got != "[[blkio.throttle.write_bps_device 8:0 7]]" {
		t.Error(got)
	}
	if !granted("8:16 rbps=1\n8:0 rbps=5 wbps=7 riops=max wiops=max\n", "8:0 rbps=5 wbps=7") ||
		granted("8:0 rbps=5 wbps=max\n", "8:0 rbps=5 wbps=7") || granted("", "8:0 5") {
		t.Error("what was granted is read wrongly")
	}
}

// Where there is no controller, or no disk, the limit is a confounder.
func TestIOThatCannotBe(t *testing.T) {
	for controllers, why := range map[string]string{"": "no controller", "io": "not on a single disk"} {
		l := Layout{V2: t.TempDir(), V2Controllers: strings.Fields(controllers)}
		g, err := l.Create(t.Context(), &fakeV2{Conn: local.Conn{}, root: l.V2}, "x",
			Limits{IO: IO{Read: unit.MiB, Dir: "/proc"}})
		if err != nil || g.Limits().Read != nil || !strings.Contains(g.Limits().NotEnforced["io"], why) {
			t.Errorf("%q: %+v, %v", controllers, g, err)
		}
	}
}

// A program that reads past the cache is held to its rate: 6 MiB at 2 MiB/s
// take no less than 2 s, whatever else the machine does.
func TestIO(t *testing.T) {
	dir := t.TempDir()
	g := real(t, ours+"-io", Limits{CPUSet: []int{0}, IO: IO{Read: 2 * unit.MiB, Write: 2 * unit.MiB, Dir: dir}})
	if why := g.Limits().NotEnforced["io"]; why != "" {
		t.Skip("needs a limit of I/O: ", why)
	}
	if r := g.Limits().Read; r == nil || *r != 2*unit.MiB {
		t.Errorf("limits say %v", r)
	}
	if !slices.ContainsFunc(g.Dirs(), func(d string) bool {
		return strings.Contains(d, "/blkio/") ||
			path.Dir(path.Dir(d)) == g.layout.V2
	}) {
		t.Errorf("the group is in %q", g.Dirs())
	}
	began := time.Now()
	cmd := "dd if=/dev/zero of=" + dir + "/f bs=1M count=6 oflag=direct 2>" + dir + "/said || touch " + dir +
		"/refused; touch " + dir + "/done"
	start(t, g, cmd)
	until(t, "the program to end", func() bool {
		names, err := local.Conn{}.ReadDir(t.Context(), dir)
		return err == nil && slices.Contains(names, "done")
	})
	names, _ := local.Conn{}.ReadDir(t.Context(), dir)
	if slices.Contains(names, "refused") {
		said, _ := local.Conn{}.ReadFile(t.Context(), dir+"/said")
		t.Skipf("needs a file system with direct I/O: %s", said)
	}
	if took := time.Since(began); took < 2*time.Second {
		t.Errorf("6 MiB at 2 MiB/s took %v", took)
	}
}
