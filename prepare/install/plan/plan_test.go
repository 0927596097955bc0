package plan

import (
	"bytes"
	"cmp"
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

// golden returns the specification and the facts of a golden plan.
func golden(t *testing.T, name string) (*spec.Spec, Target) {
	t.Helper()
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
	return s, facts
}

// TestGolden compares the plan for a machine with NVMe, 16 GB and UEFI, and those of the
// other recipes for a small machine.
func TestGolden(t *testing.T) {
	for _, name := range []string{"article", "debian12", "debian13", "netbsd", "mirror", "grub"} {
		s, facts := golden(t, name)
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

// TestArticle finds each command of the guide in the plan for its machine, or as a row with a
// reason in the table of differences.
func TestArticle(t *testing.T) {
	s, facts := article(t)
	text := mustPlan(t, s, facts).String()
	for _, command := range []string{
		"wipefs -a /dev/disk/by-id/nvme", "sgdisk --zap-all /dev/disk/by-id/nvme", "-n 1:1m:+512m -t 1:ef00",
		"-n 2:0:+18g -t 2:8200", "-n 3:0:-10m -t 3:bf00", "install -D -m 000 /dev/stdin /etc/zfs/zroot.key",
		"zpool create -f -o ashift=12 -O compression=lz4 -O acltype=posixacl -O xattr=sa -O relatime=on " +
			"-O encryption=aes-256-gcm -O keylocation=file:///etc/zfs/zroot.key -O keyformat=passphrase -o autotrim=on " +
			"-o compatibility=openzfs-2.2-linux -m none",
		"zfs create -o mountpoint=none zroot/ROOT\n", "zfs create -o mountpoint=/ -o canmount=noauto zroot/ROOT/void\n",
		"zfs create -o mountpoint=/home zroot/home\n", "zpool set bootfs=zroot/ROOT/void zroot\n",
		"zfs mount zroot/ROOT/void\n", "zfs mount zroot/home\n",
		"XBPS_ARCH=x86_64 xbps-install -y -R https://mirrors.servercentral.com/voidlinux/current -r /mnt base-system\n",
		"/etc/hostid /mnt/etc/hostid\n", "/etc/zfs/zroot.key /mnt/etc/zfs/zroot.key\n",
		"cryptsetup luksFormat --batch-mode --type luks1", "mkswap /dev/mapper/cryptswap\n",
		"/dev/mapper/cryptswap none swap defaults 0 0\n", "xbps-install -y cryptsetup\n",
		"if=/dev/urandom of=/mnt/boot/volume.key", "cryptsetup luksAddKey", "chmod 000 /mnt/boot/volume.key\n",
		" /boot/volume.key luks\n", `install_items+=" /etc/zfs/zroot.key /boot/volume.key /etc/crypttab "`,
		`KEYMAP="us"`, `HARDWARECLOCK="UTC"`, "/usr/share/zoneinfo/Europe/Rome /etc/localtime\n",
		"stdin:    en_US.UTF-8 UTF-8\n", "stdin:    en_US ISO-8859-1\n", "LANG=en_US.UTF-8\n",
		"xbps-reconfigure -f glibc-locales\n", `nofsck="yes"`, `omit_dracutmodules+=" btrfs "`, "xbps-install -y zfs\n",
		"zfs set org.zfsbootmenu:commandline=quiet zroot/ROOT\n",
		"zfs set org.zfsbootmenu:keysource=zroot/ROOT/void zroot\n", "rd.luks.uuid=", "resume=/dev/mapper/cryptswap",
		"mkfs.vfat -F32", "mkdir -p /mnt/boot/efi\n", "/mnt/boot/efi/EFI/ZBM/VMLINUZ.EFI\n",
		"/mnt/boot/efi/EFI/ZBM/VMLINUZ-BACKUP.EFI\n",
		`-p 1 -L 'ZFSBootMenu (Backup)' -l '\EFI\ZBM\VMLINUZ-BACKUP.EFI'`, `-p 1 -L ZFSBootMenu -l '\EFI\ZBM\VMLINUZ.EFI'`,
		"xbps-install -y void-repo-nonfree\n", "xbps-install -y intel-ucode\n", "xbps-reconfigure -fa\n",
		"vim nano dbus elogind polkit xorg xorg-fonts xorg-video-drivers xorg-input-drivers dejavu-fonts-ttf " +
			"terminus-font NetworkManager pipewire alsa-pipewire wireplumber xdg-user-dirs unzip gzip xz 7zip\n",
		"kde-plasma dolphin konsole firefox kdegraphics-thumbnailers ffmpegthumbs vlc ark kwrite discover kf6-purpose\n",
		"/etc/sv/NetworkManager /etc/runit/runsvdir/default/NetworkManager\n",
		"/etc/sv/dbus /etc/runit/runsvdir/default/dbus\n", "/etc/sv/polkitd /etc/runit/runsvdir/default/polkitd\n",
		"/etc/sv/sddm /etc/runit/runsvdir/default/sddm\n", "mkdir -p /etc/xdg/autostart", "/etc/pipewire/pipewire.conf.d",
		"/usr/share/applications/pipewire.desktop /etc/xdg/autostart/",
		"/usr/share/examples/pipewire/20-pipewire-pulse.conf /etc/pipewire/pipewire.conf.d/",
		"/usr/share/alsa/alsa.conf.d/50-pipewire.conf /etc/alsa/conf.d/",
		"/usr/share/alsa/alsa.conf.d/99-pipewire-default.conf /etc/alsa/conf.d/",
		"xbps-install -y void-repo-nonfree void-repo-multilib void-repo-multilib-nonfree\n", "xbps-install -y flatpak\n",
		"flatpak remote-add --if-not-exists flathub https://dl.flathub.org/repo/flathub.flatpakrepo\n",
		"useradd -m anna\n", "video,wheel,plugdev,kvm,audio,network anna\n", "rm -f /mnt/etc/resolv.conf\n",
		"/run/NetworkManager/resolv.conf /etc/resolv.conf\n", "zpool export zroot\n",
	} {
		if !strings.Contains(text, command) {
			t.Errorf("the plan lacks %q", command)
		}
	}
	page, err := os.ReadFile("../../../docs/special/installing-void.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 5 && strings.TrimSpace(cells[3]) != "" {
			rows.WriteString(cells[1] + "\n")
		}
	}
	for _, command := range []string{"source /etc/os-release", "export", "disk-vars.sh", "zgenhostid -f 0x00bab10c",
		"/dev/nvme0n1p3", "zpool labelclear -f", "three calls of `sgdisk -n`", "> zroot.key", "zpool export",
		"import -R /mnt",
		"load-key -L prompt", "udevadm trigger", "xbps-install -S", "xchroot /mnt", "cryptsetup luksFormat", "luksOpen",
		"swapon", "dd bs=1 count=64", "chmod -R g-rwx,o-rwx /boot", "crypttab names the swap", "`>>` appends to `fstab`",
		"passwd", "dracut.conf.d", "fstab: `vfat defaults`", "commandline", "get.zfsbootmenu.org/efi", "curl", "efibootmgr",
		"two copies", "udevd", "10-wireplumber.conf", "usermod -G", "umount -l /mnt/etc/resolv.conf", "umount -n -R /mnt",
		"reboot"} {
		if !strings.Contains(rows.String(), command) {
			t.Errorf("the table of differences has no row for %q", command)
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
			script := step.Argv[0] == "sh" && slices.ContainsFunc(p.Steps, func(s Step) bool {
				return s.Argv[0] == "install" && s.Argv[len(s.Argv)-1] == step.Argv[1]
			})
			if slices.Contains(step.Argv, "sh") && !script || slices.Contains(step.Argv, "-c") && step.Argv[0] == "bash" {
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

// TestStepIDs: the engine finds a step by its id, so no two steps have the same one, whatever the
// names of datasets are.
func TestStepIDs(t *testing.T) {
	s, facts := article(t)
	for _, name := range []string{"srv", "srv/data", "srv-data", "var", "var/log", "a", "a/b", "a-b", "a/b/c", "a/b-c",
		"a-b-c"} {
		s.Datasets = append(s.Datasets, spec.Dataset{Name: name, Mountpoint: "/srv/" + name})
	}
	p := mustPlan(t, s, facts)
	for id, name := range map[string]string{"mount-own-srv": "srv", "mount-own-var-log": "var/log",
		"mount-own-srv/data": "srv/data", "mount-own-srv-data": "srv-data", "mount-own-a/b-c": "a/b-c"} {
		if step := p.Step(id); step == nil || !slices.Contains(step.Argv, pool+"/"+name) {
			t.Errorf("%s is %+v", id, step)
		}
	}
	p.Steps = append(p.Steps, p.Steps[3])
	p.Hash = p.computeHash()
	src, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read("plan.json", src); err == nil || !strings.Contains(err.Error(), "two steps with the id") {
		t.Errorf("a plan with two steps of one id gave %v", err)
	}
}

// TestUnknownFacts: a plan says which facts are unknown, and never takes them for a no.
func TestUnknownFacts(t *testing.T) {
	with := func(old, value string) Target {
		t.Helper()
		text := strings.Replace(string(read(t, "article.json")), old, value, 1)
		facts, err := installed.Read("f", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return TargetOf(facts)
	}
	s, _ := article(t)
	for _, c := range [][3]string{
		{`"efivars": true`, `"efivars": null`, "it is unknown whether the target has EFI variables: no boot entry is " +
			"made, the firmware starts EFI/BOOT/BOOTX64.EFI"},
		{`"secure_boot": false`, `"secure_boot": null`, "it is unknown whether Secure Boot is on"},
		{`"blkid": {}`, `"blkid": null`, "it is unknown whether another disk has a pool called zroot"},
		{`"zfs": "2.3.4"`, `"zfs": "unknown"`, "it is unknown which OpenZFS the rescue system has"},
		{`"zfs": "2.3.4"`, ``, "it is unknown which OpenZFS the rescue system has"},
	} {
		notes := strings.Join(mustPlan(t, s, with(c[0], c[1])).Notes, "\n")
		if !strings.Contains(notes, c[2]) || strings.Contains(notes, "no EFI variables:") {
			t.Errorf("%s: the notes are %s", c[1], notes)
		}
	}
	for _, c := range [][3]string{
		{`"zpool": {}`, `"zpool": null`, "the facts do not say which pools are imported"},
		{`"mode": "uefi"`, `"mode": null`, "the facts do not say whether the target was started by UEFI"},
		{`"partitions": []`, `"partitions": null`, "the facts do not say what /dev/nvme0n1 holds"},
		{`"signatures": []`, `"signatures": null`, "the facts do not say what /dev/nvme0n1 holds"},
		{`"logical": 512`, `"logical": null`, "the facts do not say how large /dev/nvme0n1"},
	} {
		if _, err := New(s, with(c[0], c[1])); err == nil || !strings.Contains(err.Error(), c[2]) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", c[1], err, c[2])
		}
	}
}

// TestKeymap: Debian's console reads layouts of XKB.
func TestKeymap(t *testing.T) {
	s, facts := golden(t, "debian13")
	s.Keymap = "de-latin1-nodeadkeys"
	const want = "XKBMODEL=\"pc105\"\nXKBLAYOUT=\"de\"\nXKBVARIANT=\"nodeadkeys\"\n"
	if got := mustPlan(t, s, facts).Step("keyboard").Stdin.Text; got != want {
		t.Errorf("%s", got)
	}
}

// TestLegacyZone: Debian 13 has the time zones with old names in a package of their own, which Debian 12 lacks.
func TestLegacyZone(t *testing.T) {
	for _, x := range []struct {
		system, zone string
		want         bool
	}{{"debian13", "US/Eastern", true}, {"debian13", "Asia/Calcutta", true}, {"debian13", "America/New_York", false},
		{"debian12", "US/Eastern", false}} {
		s, facts := golden(t, x.system)
		s.Timezone = x.zone
		if got := slices.Contains(mustPlan(t, s, facts).Step("tools").Argv, "tzdata-legacy"); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}

// TestProperties: a property of the specification replaces that of the plan. zpool create refuses one that is
// there twice.
func TestProperties(t *testing.T) {
	s, facts := article(t)
	s.Pool.Properties = map[string]string{"relatime": "off", "atime": "off", "xattr": "on"}
	argv := strings.Join(mustPlan(t, s, facts).Step("pool").Argv, " ")
	const want = " -O acltype=posixacl -O xattr=on -O relatime=off -O atime=off -O encryption="
	if !strings.Contains(argv, want) {
		t.Errorf("%s lacks %s", argv, want)
	}
}

// TestNotes says what the specification may have forgotten, and what its reader may not expect.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		system, want string
		shown        bool
		change       func(*spec.Spec, *Target)
	}{
		{"article", "may ask for the passphrase with the layout us instead of de-latin1", true,
			func(s *spec.Spec, _ *Target) { s.Keymap = "de-latin1" }},
		{"article", "with the layout us", false, func(*spec.Spec, *Target) {}},
		{"debian13", "with the layout us", false, func(s *spec.Spec, _ *Target) { s.Keymap = "de" }},
		{"mirror", "the disks of the mirror differ in size: 936GiB of the larger one stay unused", true,
			func(_ *spec.Spec, t *Target) { t.Disks[1].Size += 936 << 30 }},
		{"mirror", "differ in size", false, func(_ *spec.Spec, t *Target) { t.Disks[1].Size -= 1 << 20 }},
		{"debian13", "anna is in the group sudo, but nothing installs the program: add sudo", true,
			func(*spec.Spec, *Target) {}},
		{"debian13", "is in the group sudo", false, func(s *spec.Spec, _ *Target) { s.Packages = []string{"sudo"} }},
		{"debian13", "is in the group sudo", false, func(s *spec.Spec, _ *Target) { s.Base.File = "/base.tar" }},
	} {
		s, facts := golden(t, c.system)
		c.change(s, &facts)
		if text := mustPlan(t, s, facts).String(); strings.Contains(text, c.want) != c.shown {
			t.Errorf("%s: %q is there: %v", c.system, c.want, !c.shown)
		}
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
		"2.1.14, which does not know the features of grub2-2.12": func(s *spec.Spec, t *Target) {
			t.ZFS, s.Pool.Compatibility = "2.1.14", "grub2-2.12"
		},
		"2.1.14, which cannot set":      func(s *spec.Spec, t *Target) { t.ZFS, s.Pool.Compatibility = "2.1.14", "zol-0.8" },
		"has no disk /dev/disk/by-id/x": func(s *spec.Spec, _ *Target) { s.MirrorDisk = "/dev/disk/by-id/x" },
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
		"unless their key is enrolled": func(_ *spec.Spec, t *Target) { t.SecureBoot = new(true) },
		"no key of the machine owner":  func(_ *spec.Spec, t *Target) { t.SecureBoot, t.MOK = new(true), []string{} },
		"that are enrolled (Example CA, DKMS)": func(_ *spec.Spec, t *Target) {
			t.SecureBoot, t.MOK = new(true), []string{"Example CA", "DKMS"}
		},
		"bakeoff signs no boot loader": func(s *spec.Spec, t *Target) {
			t.SecureBoot = new(true)
			*s = spec.Spec{Recipe: "netbsd-zfs", Disk: s.Disk}
		},
		"/dev/sdb2 has another pool called zroot": func(_ *spec.Spec, t *Target) {
			t.Labels = []Label{{"/dev/nvme0n1p3", "/dev/nvme0n1", "zroot"}, {"/dev/sdb1", "/dev/sdb", "bpool"},
				{"/dev/sdb2", "/dev/sdb", "zroot"}}
		},
		"do not say how large":   func(_ *spec.Spec, t *Target) { t.Disks[0].Logical = 0 },
		"do not say which pools": func(_ *spec.Spec, t *Target) { t.Unknown = []string{"zpool"} },
		"do not say whether the target was started by UEFI": func(_ *spec.Spec, t *Target) {
			t.EFI, t.Unknown = false, []string{"firmware.mode"}
		},
		"to have EFI variables": func(s *spec.Spec, t *Target) {
			s.Bootloader.SSHKeys, t.EFIVars = []string{"ssh-ed25519 A"}, false
		},
		"the reservation of the pool is 5T, and the pool on /dev/nvme0n1 gets only 912GiB": func(s *spec.Spec, _ *Target) {
			s.Pool.Properties = map[string]string{"reservation": "5T"}
		},
		"the refreservation of srv is 1t": func(s *spec.Spec, _ *Target) {
			s.Datasets = []spec.Dataset{{Name: "srv", Properties: map[string]string{"refreservation": "1t"}}}
		},
		"is too small for a pool of 8 GiB": func(s *spec.Spec, t *Target) {
			*s = spec.Spec{Recipe: "netbsd-zfs", Disk: s.Disk}
			t.Disks[0].Size = 6 << 30
		},
		"too small for 18 GiB of swap and a pool of 8 GiB": func(_ *spec.Spec, t *Target) { t.Disks[0].Size = 20 << 30 },
		"sectors of 520 bytes":                             func(_ *spec.Spec, t *Target) { t.Disks[0].Logical = 520 },
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
	// Labels on the disk that is written go, and those of another name disturb nothing.
	facts.Labels = []Label{{"/dev/nvme0n1p3", "/dev/nvme0n1", "zroot"}, {"/dev/sdb1", "/dev/sdb", "bpool"},
		{"/dev/loop0", "/dev/loop0", "zroot"}, {"/dev/sdb2", "/dev/sdb", "tank"}}
	mustPlan(t, s, facts)
	s, facts = golden(t, "netbsd")
	facts.Labels = []Label{{"/dev/dk3", "/dev/wd1", "rpool"}}
	if _, err := New(s, facts); err == nil || !strings.Contains(err.Error(), "imports any pool of this name by force") {
		t.Errorf("a second rpool: %v", err)
	}
	f := installed.System{Disks: []installed.Disk{{Name: "wd1", Partitions: []installed.Partition{{Device: "/dev/dk3"}}}},
		Blkid: map[string]map[string]string{"/dev/dk3": {"TYPE": "zfs_member", "LABEL": "rpool"}, "/dev/dk4": {}}}
	if got := TargetOf(f).Labels; len(got) != 1 || got[0] != facts.Labels[0] {
		t.Errorf("labels %+v", got)
	}
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

// TestVoidDownloads: the indexes are read once, before the disk is touched, or with none whenever
// packages are installed.
func TestVoidDownloads(t *testing.T) {
	for _, dir := range []string{"/d", "none"} {
		s, facts := article(t)
		s.Downloads = dir
		p := mustPlan(t, s, facts)
		if there := p.Step("repository") != nil; there != (dir == "none") {
			t.Errorf("%s: there is a step repository: %v", dir, there)
		}
		destroys := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Destroys != "" })
		for i, step := range p.Steps {
			at := slices.Index(step.Argv, "xbps-install")
			if at < 0 {
				continue
			}
			if synced := step.Argv[at+1] == "-Sy"; synced != (i < destroys || dir == "none") {
				t.Errorf("%s: step %s, where step %d destroys: %q", dir, step.ID, destroys, step.Argv)
			}
		}
	}
}

// TestDownloads: what Debian needs is downloaded before the disk is touched, or with none only looked
// for.
func TestDownloads(t *testing.T) {
	for _, name := range []string{"debian12", "debian13", "grub"} {
		for _, dir := range []string{"", "none"} {
			s, err := spec.Parse(name, append(read(t, name+".yaml"), "download_dir: "+cmp.Or(dir, "/d")+"\n"...))
			if err != nil {
				t.Fatal(err)
			}
			_, facts := article(t)
			p := mustPlan(t, s, facts)
			index := func(id string) int { return slices.IndexFunc(p.Steps, func(s Step) bool { return s.ID == id }) }
			first := slices.IndexFunc(p.Steps, func(s Step) bool { return s.Destroys != "" })
			with, without := []string{"download-base", "download"}, []string{"packages-exist"}
			later, never := "cache", "apt-update"
			if dir == "none" {
				with, without, later, never = without, with, never, later
			}
			for _, id := range with {
				if at := index(id); at < 0 || at > first || !p.Steps[at].Local {
					t.Errorf("%s, %s: step %d is %s, and step %d destroys", name, dir, at, id, first)
				}
			}
			for _, id := range append(without, never) {
				if index(id) >= 0 {
					t.Errorf("%s, %s: there is a step %s", name, dir, id)
				}
			}
			if at := index(later); at < index("base") || at > index("upgrade") {
				t.Errorf("%s, %s: step %d is %s", name, dir, at, later)
			}
			var names []string
			for _, step := range p.Steps { // what is installed in the new system
				if at := slices.Index(step.Argv, "Dpkg::Options::=--force-confold"); at > 0 && step.ID != "upgrade" {
					names = append(names, step.Argv[at+1:]...)
				}
			}
			all := strings.Join(p.Steps[index(with[len(with)-1])].Argv, " ")
			for _, n := range names {
				if !strings.Contains(strings.ReplaceAll(all, ",", " ")+" ", " "+n+" ") {
					t.Errorf("%s, %s: %s is not downloaded or looked for", name, dir, n)
				}
			}
		}
	}
}

// TestFallback: the specification chooses that the firmware gets no entries, for a disk that will
// start another machine.
func TestFallback(t *testing.T) {
	for _, name := range []string{"article", "mirror", "debian12", "grub"} {
		text, keys := string(read(t, name+".yaml"))+"firmware: fallback\n", ""
		if at := strings.Index(text, "  ssh_keys:"); at >= 0 { // of ZFSBootMenu
			keys = text[at : at+strings.Index(text[at:], "\n")+1]
			if _, err := spec.Parse(name, []byte(text)); err == nil || !strings.Contains(err.Error(), "leave out ssh_keys") {
				t.Errorf("%s: no entry starts the image with ssh_keys: %v", name, err)
			}
		}
		s, err := spec.Parse(name, []byte(strings.Replace(text, keys, "", 1)))
		if err != nil {
			t.Fatal(err)
		}
		_, facts := article(t)
		facts.Disks = append(facts.Disks, secondDisk(facts.Disks[0]))
		p := mustPlan(t, s, facts)
		if p.Step("loader-fallback") == nil {
			t.Errorf("%s has no loader that starts without an entry", name)
		}
		for _, step := range p.Steps {
			if step.Argv[0] == "efibootmgr" {
				t.Errorf("%s: %s makes an entry", name, step.ID)
			}
		}
		if !slices.Contains(p.Notes, "no boot entry is made, the firmware starts EFI/BOOT/BOOTX64.EFI") {
			t.Errorf("%s: the notes %q do not say so", name, p.Notes)
		}
	}
}

// TestHomes gives users the folders where datasets are mounted, which useradd leaves to root.
func TestHomes(t *testing.T) {
	for mountpoint, want := range map[string]bool{"/home/anna": true, "/home/anna/mail": true, "/home/annabel": false} {
		for _, name := range []string{"article", "debian13"} {
			s, facts := golden(t, name)
			s.Users = []spec.User{{Name: "anna", Password: "prompt", SSHKeys: []string{"ssh-ed25519 A"}}, {Name: "bob"}}
			s.Datasets = []spec.Dataset{{Name: "more", Mountpoint: mountpoint}}
			p := mustPlan(t, s, facts)
			all := p.String()
			for _, step := range []string{"cp -a /etc/skel/. /home/anna\n", "chown -R anna: /home/anna\n"} {
				at := strings.Index(all, step)
				if at >= 0 != want || want && (at < strings.Index(all, "useradd -m anna") ||
					at > strings.Index(all, "/home/anna/.ssh/authorized_keys")) {
					t.Errorf("%s, %s: %s is at %d", name, mountpoint, step, at)
				}
			}
			if p.Step("home-owner-bob") != nil {
				t.Errorf("%s: a step for a user without a dataset", name)
			}
		}
	}
}

// TestCacheDataset: what a dataset is mounted on cannot be removed.
func TestCacheDataset(t *testing.T) {
	for _, mountpoint := range []string{"/var/cache/xbps", "/var/cache/xbps/more"} {
		s, facts := article(t)
		s.Datasets = []spec.Dataset{{Name: "cache", Mountpoint: mountpoint}}
		step := mustPlan(t, s, facts).Step("cache-remove")
		if got := strings.Join(step.Argv, " "); got != "find /mnt/var/cache/xbps -not -type d -delete" {
			t.Errorf("%s: %s", mountpoint, got)
		}
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
