//go:build linux

package qemu

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/gpt"
	"bakeoff/base/gpt/gpttest"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/guest/qemu"
)

// The root of a guest is in memory: a partition that the GPT marks, or one with a name.
func TestRAMDisk(t *testing.T) {
	agent, _ := bench(t)
	const mib = 1 << 20
	parts := []gpttest.Part{{Name: "me", From: mib, Attributes: gpt.BootMe},
		{Name: "once", From: 5 * mib, Attributes: gpt.BootMe | gpt.BootOnce}, {Name: "plain", From: 9 * mib}}
	for i, p := range parts {
		root, file := t.TempDir(), filepath.Join(t.TempDir(), "fs")
		if err := os.WriteFile(filepath.Join(root, "which"), []byte(p.Name), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-d", root, file, "4M").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var err error
		if parts[i].Content, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	disk := file(t, gpttest.Disk(14*mib, parts...))
	for name, want := range map[string]string{"": "partition 2 of /disk.img, \"once\", bootonce, bootme",
		"plain": "partition 3 of /disk.img, \"plain\""} {
		t.Run("partition "+name, func(t *testing.T) {
			spec := parallel(t, param.Values{optAccel: qemu.TCG, optRAMDisk: disk, optPartition: name})
			spec.Agent = agent
			in := create(t, spec)
			var which bytes.Buffer
			if err := in.Pull(t.Context(), "/which", &which); err != nil || !strings.Contains(want, "\""+which.String()+"\"") {
				t.Errorf("the root is %q, %v", &which, err)
			}
			if facts := in.Info().Facts; facts["root"] != "in memory, "+want || len(facts["ram-disk.sha256"]) != 64 {
				t.Errorf("facts %v", facts)
			}
		})
	}
	small := parallel(t, param.Values{optAccel: qemu.TCG, optRAMDisk: disk})
	small.Memory = 112 * unit.MiB
	says(t, failing(t, small), fault.Invalid, "needs 124MiB to load", "memory: 124MiB")
}
