package rescue

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestImageOfLoopDevice(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("attaches a loop device: needs root")
	}
	name := file(t, DefaultSize, "")
	out, err := exec.Command("losetup", "--find", "--show", name).Output()
	if err != nil {
		t.Skipf("losetup: %v", err)
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if out, err := exec.Command("losetup", "-d", device).CombinedOutput(); err != nil {
			t.Errorf("losetup -d: %v: %s", err, out)
		}
	})
	want := "the image is in use: " + device + " is attached to it; losetup -d " + device
	if _, err := OpenImage(name, 0, Make); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}
