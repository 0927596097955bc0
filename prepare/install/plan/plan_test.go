package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"bakeoff/prepare/install/installed"
	"bakeoff/prepare/install/spec"
)

var update = flag.Bool("update", false, "write the golden plan")

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// article returns the specification and the facts of the guide's machine.
func article(t *testing.T) (*spec.Spec, Target) {
	t.Helper()
	s, err := spec.Parse("article.yaml", read(t, "article.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	facts, err := installed.Read("article.json", bytes.NewReader(read(t, "article.json")))
	if err != nil {
		t.Fatal(err)
	}
	return s, TargetOf(facts)
}

func mustPlan(t *testing.T, s *spec.Spec, facts Target) *Plan {
	t.Helper()
	p, err := New(s, facts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestGolden compares the plan for a machine with NVMe, 16 GB and UEFI, and those of the
// other recipes for a small machine.
func TestGolden(t *testing.T) {
	for _, name := range []string{"article", "debian12", "debian13", "netbsd", "mirror", "grub"} {
		s, err := spec.Parse(name+".yaml", read(t, name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		_, facts := article(t)
		if name != "article" {
			facts.RAM, facts.Disks[0].Size = 4<<30, 64<<30
		}
		if name == "netbsd" {
			facts.Disks[0].ByID, facts.Disks[0].Path = "", "/dev/wd0"
		}
		if name == "mirror" {
			facts.Disks = append(facts.Disks, secondDisk(facts.Disks[0]))
		}
		got := mustPlan(t, s, facts).String()
		if *update {
			if err := os.WriteFile("testdata/"+name+".txt", []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want := string(read(t, name+".txt")); got != want {
			t.Errorf("the plan of %s changed; if that is meant, run go test -update\n%s", name, got)
		}
	}
}

// secondDisk is a disk like d.
func secondDisk(d Disk) Disk {
	d.Path, d.ByID, d.Serial = "/dev/nvme1n1", strings.ReplaceAll(d.ByID, "S4EWNX0", "S4EWNX1"), "S4EWNX1"
	return d
}

// TestInvariants holds for every combination of options.
func TestInvariants(t *testing.T) {
	hashes := map[string]bool{}
	for bits := range 32 {
		s, facts := article(t)
		s.Hibernate, s.Desktop, facts.EFIVars = bits&1 > 0, bits&2 > 0, bits&4 > 0
		if !s.Hibernate && bits&8 > 0 {
			s.Secrets.Swap = ""
		}
		if bits&16 > 0 {
			s.Libc = "musl"
		}
		p := mustPlan(t, s, facts)
		if again := mustPlan(t, s, facts); again.Hash != p.Hash {
			t.Error("the same input gave two plans")
		}
		hashes[p.Hash] = true
		var ids []string
		text, _ := json.Marshal(p)
		for _, step := range p.Steps {
			for _, n := range step.Needs {
				if !slices.Contains(ids, n) {
					t.Errorf("%s needs %s, which does not come before it", step.ID, n)
				}
			}
			if slices.Contains(ids, step.ID) {
				t.Errorf("two steps are called %s", step.ID)
			}
			ids = append(ids, step.ID)
			if slices.Contains(step.Argv, "sh") || slices.Contains(step.Argv, "-c") && step.Argv[0] == "bash" {
				t.Errorf("%s runs a shell", step.ID)
			}
		}
		index := func(id string) int { return slices.Index(ids, id) }
		if index("loader-verify") > index("wipe-signatures") {
			t.Error("the disk is wiped before the image is verified")
		}
		if index("dracut") > index("zfs") || index("copy-hostid") > index("zfs") {
			t.Error("the initramfs is built before its configuration exists")
		}
		if got := index("luks") >= 0; got != (s.Secrets.Swap != "") {
			t.Errorf("luks is in the plan: %v", got)
		}
		if got := strings.Contains(string(text), "resume="); got != s.Hibernate {
			t.Errorf("resume= is in the plan: %v", got)
		}
		if got := index("entry") >= 0; got != facts.EFIVars {
			t.Errorf("a boot entry is in the plan: %v", got)
		}
	}
	if len(hashes) != 24 { // 8 of the 32 combinations equal another one
		t.Errorf("%d plans differ", len(hashes))
	}
}

// TestRefusals refuses a target for each reason, with what to do.
func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*spec.Spec, *Target){
		"in use: pool tank":              func(_ *spec.Spec, t *Target) { t.Disks[0].Users = []string{"pool tank"} },
		"holds the running":              func(_ *spec.Spec, t *Target) { t.Disks[0].System = true },
		"holds ntfs":                     func(_ *spec.Spec, t *Target) { t.Disks[0].Signatures = []string{"ntfs"} },
		"has no disk":                    func(_ *spec.Spec, t *Target) { t.Disks = nil },
		"no serial number":               func(_ *spec.Spec, t *Target) { t.Disks[0].Serial = "" },
		"Secure Boot is on":              func(_ *spec.Spec, t *Target) { t.SecureBoot = new(true) },
		"not started by UEFI":            func(_ *spec.Spec, t *Target) { t.EFI = false },
		"does not exceed the RAM":        func(s *spec.Spec, _ *Target) { s.SwapGiB = 16 },
		"too small":                      func(_ *spec.Spec, t *Target) { t.Disks[0].Size = 20 << 30 },
		"what /dev/nvme0n1 holds":        func(_ *spec.Spec, t *Target) { t.Disks[0].Known = false },
		"hibernated system":              func(_ *spec.Spec, t *Target) { t.Disks[0].Signatures = []string{"swsuspend"} },
		"imported already":               func(_ *spec.Spec, t *Target) { t.Pools = []string{"zroot"} },
		"OpenZFS 2.1 of Debian 12":       func(s *spec.Spec, _ *Target) { s.Release = "bookworm" },
		"the features of openzfs-2.2-li": func(_ *spec.Spec, t *Target) { t.ZFS = "2.1.11" },
		"2.1.14, which cannot set":       func(s *spec.Spec, t *Target) { t.ZFS, s.Pool.Compatibility = "2.1.14", "zol-0.8" },
		"has no disk /dev/disk/by-id/x":  func(s *spec.Spec, _ *Target) { s.MirrorDisk = "/dev/disk/by-id/x" },
		"are the same disk": func(s *spec.Spec, t *Target) {
			t.Disks = append(t.Disks, t.Disks[0])
			t.Disks[1].ByID, s.MirrorDisk = "/dev/disk/by-id/x", "/dev/disk/by-id/x"
		},
		"and /dev/nvme1n1 of 4096": func(s *spec.Spec, t *Target) {
			t.Disks = append(t.Disks, secondDisk(t.Disks[0]))
			t.Disks[1].Logical, s.MirrorDisk = 4096, t.Disks[1].ByID
		},
		"/dev/nvme1n1 holds ntfs": func(s *spec.Spec, t *Target) {
			t.Disks = append(t.Disks, secondDisk(t.Disks[0]))
			t.Disks[1].Signatures, s.MirrorDisk = []string{"ntfs"}, t.Disks[1].ByID
		},
		"sectors of 520 bytes": func(_ *spec.Spec, t *Target) { t.Disks[0].Logical = 520 },
	} {
		s, facts := article(t)
		change(s, &facts)
		if _, err := New(s, facts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, version := range []string{"", "2.2.0", "2.10.1"} {
		s, facts := article(t)
		facts.ZFS = version
		mustPlan(t, s, facts)
	}
	s, facts := article(t)
	facts.Disks[0].Signatures, s.Destroy = []string{"ntfs"}, []string{"ntfs"}
	mustPlan(t, s, facts)
}

// TestRead reads back what a plan writes, and refuses one that was changed.
func TestRead(t *testing.T) {
	s, facts := article(t)
	p := mustPlan(t, s, facts)
	src, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Read("plan.json", src); err != nil || again.String() != p.String() {
		t.Errorf("%v", err)
	}
	changed := strings.Replace(string(src), "wipefs", "wipefz", 1)
	if _, err := Read("plan.json", []byte(changed)); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("a changed plan gave %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"schema": "bakeoff/install-plan/v1", "steps": [{"id": "a", "checks": [{"argv": []}]}]}`))
	f.Fuzz(func(_ *testing.T, src []byte) {
		if p, err := Read("f", src); err == nil {
			_ = p.String()
		}
	})
}

// TestPlain: a pool that is not encrypted has no key, and the swap has none on it.
func TestPlain(t *testing.T) {
	for _, name := range []string{"article", "mirror", "debian12", "debian13", "grub"} {
		src := strings.Replace(string(read(t, name+".yaml")), "pool: prompt, ", "", 1) + "encryption: off\n"
		s, err := spec.Parse(name, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		_, facts := article(t)
		facts.Disks = append(facts.Disks, secondDisk(facts.Disks[0]))
		p := mustPlan(t, s, facts)
		text, _ := json.Marshal(p.Steps)
		for _, word := range []string{poolKey, swapKey, "load-key", "encryption=", "keylocation", "keysource"} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s has %s", name, word)
			}
		}
		if _, ok := p.Secrets["pool"]; ok {
			t.Errorf("%s asks for the passphrase of the pool", name)
		}
	}
}

// TestBase: an archive of the base system is verified before the disk is touched, and unpacked.
func TestBase(t *testing.T) {
	const sum = "ba3044dcb8173aec2112a32d96913758c5f3fc7f542ae0356ab35ecc7de99c89"
	s, err := spec.Parse("debian13.yaml", append(read(t, "debian13.yaml"), "base: {file: /root/base.tar, sha256: "+sum+
		"}\n"...))
	if err != nil {
		t.Fatal(err)
	}
	_, facts := article(t)
	p := mustPlan(t, s, facts)
	first := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Destroys != "" })
	verify := slices.IndexFunc(p.Steps, func(s Step) bool { return s.ID == "base-verify" })
	if verify < 0 || verify > first || !slices.Equal(p.Steps[verify].Checks[0].Expect, []string{sum}) {
		t.Errorf("step %d verifies the archive, step %d destroys", verify, first)
	}
	if b := p.Step("base"); b.Argv[0] != "tar" || !slices.Contains(b.Argv, "/root/base.tar") || b.Again == nil {
		t.Errorf("%q unpacks it, again %q", b.Argv, b.Again)
	}
}

// TestUKIHoldsNoKey: what lies on the ESP can be read by everybody.
func TestUKIHoldsNoKey(t *testing.T) {
	s, err := spec.Parse("debian13.yaml", read(t, "debian13.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, facts := article(t)
	p := mustPlan(t, s, facts)
	for _, f := range p.Steps {
		if f.Stdin != nil && strings.Contains(f.Stdin.Text, "install_items") &&
			(strings.Contains(f.Stdin.Text, poolKey) || strings.Contains(f.Stdin.Text, swapKey)) {
			t.Errorf("%s puts a key into the image: %s", f.ID, f.Stdin.Text)
		}
	}
	if p.Step("keylocation") == nil || p.Step("copy-key") != nil {
		t.Error("the passphrase is not asked for")
	}
	index := func(id string) int { return slices.IndexFunc(p.Steps, func(s Step) bool { return s.ID == id }) }
	if index("cmdline") > index("kernel") || index("copy-hostid") > index("zfs") || index("kernel") > index("zfs") {
		t.Error("what the packages read comes after them")
	}
}
