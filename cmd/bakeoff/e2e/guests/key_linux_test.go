package guests

import (
	"crypto/sha256"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bakeoff/provision/driver/qemu/bootdisk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/local"
)

// A disk with a boot loader gets the key of the command line for cloud-init, and the size.
// What cannot have them is refused, and nothing is left.
func TestKeyOfCommandLine(t *testing.T) {
	h := home(t)
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl user@host"
	public, disk := file(t, "key.pub", key+"\n"), "disk:"+redSector(t)
	do(t, h, "run", disk, "--accel", "tcg", "--memory", "64MiB", "--name", "box", "--ssh-key", public,
		"--disk-size", "8MiB", "-p", "22")
	g := guest(t, h, "box")
	if g.CustomerMetadata["root_authorized_keys"] != key || len(g.Reached) != 1 {
		t.Errorf("it is %+v", g)
	}
	for name, want := range map[string]string{"user-data": key, "meta-data": key,
		"network-config": `"macaddress": "02:b1:00:00:00:01"`} { // by the name of its card, only netplan finds it
		text, err := os.ReadFile(filepath.Join(h.Variable("BAKEOFF_STATE"), "vm", g.UUID, "seed", name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("cloud-init reads %s: %s, %v", name, text, err)
		}
	}
	if info := do(t, h, "info", "box", "block"); !strings.Contains(info, `"virtual-size":8388608`) {
		t.Errorf("QEMU has the disks %s", info)
	}
	do(t, h, "delete", "box")
	service := tiny(t, h)
	refused(t, h, 1, "only guests of the brands kvm and bhyve", "run", service, "--brand", "docker", "--ssh-key", public)
	refused(t, h, 1, "bakeoff creates no disk for", "run", service, "--brand", "docker", "--disk-size", "1GiB")
	leavesNothing(t, h)
}

// A disk of others starts with its own boot loader, by BIOS and by UEFI. Its system sees a disk of the asked size and
// the disk that cloud-init reads, and answers at the published port. The file stays as it was.
func TestOwnBootLoader(t *testing.T) {
	h := home(t)
	if what, pkg := bootdisk.Lacks(); what != "" {
		t.Skipf("needs %s: apt-get install %s", what, pkg)
	}
	if _, err := os.Stat(qemu.OVMFVariables); err != nil {
		t.Skip("needs OVMF: apt-get install ovmf")
	}
	store := image.Store{Dir: filepath.Join(h.Variable("BAKEOFF_CACHE"), "image"), Host: local.Conn{}}
	kernel, err := store.Kernel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(t.TempDir(), "cloud.raw")
	if err := bootdisk.Disk(t.Context(), bootdisk.Kernel{Image: kernel.Kernel, Modules: kernel.Modules,
		Agent: filepath.Join(filepath.Dir(h.Command().Path), "bakeoff-agent")}, disk); err != nil {
		t.Fatal(err)
	}
	before := sha256Of(t, disk)
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl user@host"
	do(t, h, "run", "disk:"+disk, "--accel", "tcg", "--memory", "512MiB", "--name", "box", "--disk-size", "1GiB",
		"--ssh-key", file(t, "key.pub", key+"\n"), "-p", "80")
	if said := string(page(t, h, "box")); said != "a page\n" {
		t.Errorf("it serves %q", said)
	}
	g := guest(t, h, "box")
	at := "http://" + g.Reached[0][:strings.LastIndexByte(g.Reached[0], ':')]
	get := func(name string) string {
		r, err := http.Get(at + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", name, r.Status, err)
		}
		return string(text)
	}
	if sectors := get("sectors"); sectors != "2097152\n" {
		t.Errorf("its disk has %q sectors", sectors)
	}
	if seed := get("second"); !strings.Contains(seed, "#cloud-config") || !strings.Contains(seed, key) {
		t.Error("the second disk has no key for cloud-init")
	}
	if said := do(t, h, "logs", "box"); !strings.Contains(said, "starting the kernel") {
		t.Errorf("GRUB does not write to the console:\n%s", said)
	}
	do(t, h, "delete", "box")
	do(t, h, "create", "-f", file(t, "uefi.json", `{"brand": "bhyve", "alias": "uefi", "ram": 512, "bootrom": "uefi",
		"ports": "80", "disks": [{"image": "disk:`+disk+`"}]}`))
	if said := string(page(t, h, "uefi")); said != "a page\n" {
		t.Errorf("with UEFI, it serves %q", said)
	}
	if said := do(t, h, "logs", "uefi"); !strings.Contains(said, "starting the kernel") || !strings.Contains(said, "EFI") {
		t.Errorf("it does not start by UEFI:\n%s", said)
	}
	do(t, h, "delete", "uefi")
	if after := sha256Of(t, disk); after != before {
		t.Error("the guest changed the file of the disk")
	}
	leavesNothing(t, h)
}

func sha256Of(t *testing.T, file string) (sum [sha256.Size]byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(b)
}
