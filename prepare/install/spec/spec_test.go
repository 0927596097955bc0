package spec

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
)

// Public keys of SSH.
const (
	rsa     = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB"
	ed25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExample"
)

// TestMistakes finds all mistakes at once, with lines, and shows no secret.
func TestMistakes(t *testing.T) {
	src := `recipe: void-zsf
disk: /dev/sda
mirror_disk: /dev/disk/by-id/ata-X_2
hostname: Box_1
hostnam: x
timezone: ../../etc/shadow
mirror: https://repo.example/current
zfsbootmenu: {file: /zbm.EFI, sha256: abc}
hibernate: true
kernel_args: ["console=ttyS0", "a b"]
modules: {file: /x.tar, sha256: abc}
base: {file: x.tar, sha256: abc}
secrets:
  pool: hunter2hunter2
  root: prompt
users:
  - {name: root, password: prompt}
`
	_, err := Parse("i.yaml", []byte(src))
	if err == nil {
		t.Fatal("no mistake found")
	}
	for _, want := range []string{
		`i.yaml:1:`, `i.yaml:2:7: disk`, `i.yaml:4:`, `i.yaml:5:1: unknown key "hostnam"`, `i.yaml:6:`,
		"zfsbootmenu.sha256", "i.yaml:14:9: secrets.pool", "secrets.swap is missing", "i.yaml:17:",
		"i.yaml:10:32: kernel_args.1",
		"i.yaml:9:12: a mirror can start without the disk that holds the hibernated system",
		"modules.file", "modules.sha256", "modules is for debian-zfs only",
		"base.file", "base.sha256", "base is for debian-zfs only", "i.yaml:1:1: schema is missing; begin with schema:",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the message shows a secret:\n%v", err)
	}
}

// TestFirstMistake reports a mistake alone, and nothing that only follows from it.
func TestFirstMistake(t *testing.T) {
	src, err := os.ReadFile("../plan/testdata/article.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const disk, loader = "disk: /dev/disk/by-id/nvme-Example_SSD_1TB_S4EWNX0",
		"zfsbootmenu:\n  file: /root/zfsbootmenu-release-x86_64-v3.1.0-linux6.18.EFI\n" +
			"  sha256: 0000000000000000000000000000000000000000000000000000000000000000"
	for _, c := range [][3]string{
		{"schema: bakeoff/install/v1", "schema: bakeoff/install/v2",
			"f:1:9: the schema is \"bakeoff/install/v2\"; write schema: "},
		{"schema: bakeoff/install/v1\nrecipe: void-zfs", "schema: bakeoff/lab/v1\nrecipe: x",
			"write schema: bakeoff/install/v1"},
		{"schema: bakeoff/install/v1", "", "f:2:1: schema is missing; begin with schema: bakeoff/install/v1"},
		{"schema: bakeoff/install/v1", "schema: []", "f:1:9: schema is a list"},
		{"recipe: void-zfs", "recipe: void", `f:2:9: recipe is "void"; use void-zfs, debian-zfs or netbsd-zfs`},
		{"recipe: void-zfs", "recipe: void-zsf", `recipe is "void-zsf"`}, {"recipe: void-zfs", "", "recipe is missing"},
		{"recipe: void-zfs", "recipe: [void-zfs]", "recipe is a list; write a single value"},
		{disk, "disk: [/dev/loop0]", "f:3:7: disk is a list; write a single value"},
		{disk, "disk:", "disk is missing; write a path"},
		{loader, "zfsbootmenu: /zbm.EFI", "zfsbootmenu is a single value; write a mapping"},
		{"  - {name: anna", "  - bob\n  - {name: anna", "is a single value; write a mapping"},
		{"packages: [vim]", "pool: {compatibility: openzfs-2.5-linux}", `did you mean "openzfs-2.4-linux"?`},
	} {
		text := strings.Replace(string(src), c[0], c[1], 1)
		if text == string(src) {
			t.Fatalf("the file lacks %s", c[0])
		}
		_, err := Parse("f", []byte(text))
		if err == nil || !strings.Contains(err.Error(), c[2]) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s gave %v, want %q alone", c[1], err, c[2])
		}
	}
}

// TestAsk answers the questions of each recipe with what fits, and reads the result.
func TestAsk(t *testing.T) {
	given := map[string]string{
		"disk": "/dev/disk/by-id/ata-X_1", "destroy": "gpt PMBR", "hostname": "box",
		"zfsbootmenu.file": "/root/zbm.EFI", "zfsbootmenu.sha256": strings.Repeat("a", 64), "hibernate": "yes",
		"ssh_keys": rsa, "user.name": "anna", "user.ssh_keys": ed25519 + " a'b", "packages": "vim",
		"secrets.swap": "command:op read 'x'",
	}
	for _, recipe := range Recipes {
		var in strings.Builder
		for _, q := range Questions(recipe) {
			if recipe == "netbsd-zfs" && q.Key == "disk" {
				in.WriteString("\n")
				continue
			}
			if q.when == nil || q.when(given) {
				in.WriteString(given[q.Key] + "\n")
			}
		}
		out, err := Ask(recipe, strings.NewReader(in.String()), io.Discard, false)
		if err != nil {
			t.Fatalf("%s: %v", recipe, err)
		}
		s, err := Parse("install.yaml", out)
		if err != nil {
			t.Fatalf("%s: %v\n%s", recipe, err, out)
		}
		if s.Hostname != "box" || len(s.Users) != 1 || s.Users[0].SSHKeys[0] != given["user.ssh_keys"] {
			t.Errorf("%s gave %+v", recipe, s)
		}
		if recipe != "netbsd-zfs" && (!s.Hibernate || s.Secrets.Swap != given["secrets.swap"] || len(s.Destroy) != 2) {
			t.Errorf("%s gave %+v", recipe, s)
		}
	}
}

// TestAskDefaults takes defaults that depend on the recipe and on other answers.
func TestAskDefaults(t *testing.T) {
	given := map[string]string{"disk": "/dev/disk/by-id/ata-X_1", "hostname": "box", "libc": "musl", "user.name": "anna",
		"ssh_keys": rsa, "zfsbootmenu.file": "/root/zbm.EFI", "zfsbootmenu.sha256": strings.Repeat("a", 64)}
	for recipe, want := range map[string]string{
		"void-zfs":   "mirror: 'https://repo-default.voidlinux.org/current/musl'\n",
		"debian-zfs": "groups: ['sudo', 'audio', 'video']\n",
		"netbsd-zfs": "groups: ['wheel']\n",
	} {
		var in strings.Builder
		for _, q := range Questions(recipe) {
			switch {
			case q.when != nil && !q.when(given):
			case recipe == "netbsd-zfs" && q.Key == "disk":
				in.WriteString("\n")
			default:
				in.WriteString(given[q.Key] + "\n")
			}
		}
		out, err := Ask(recipe, strings.NewReader(in.String()), io.Discard, false)
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, no %s in\n%s", recipe, err, want, out)
		}
		if _, err := Parse("install.yaml", out); err != nil {
			t.Errorf("%s: %v", recipe, err)
		}
	}
}

// TestAskTooMuch: answers are read by their place, so that one too many was meant for another question.
func TestAskTooMuch(t *testing.T) {
	answers := "/dev/wd0\n\nbox\n\n\n\n\nssh-rsa AAAAB3NzaC1yc2EAAAADAQAB\n\n\n\n"
	if _, err := Ask("netbsd-zfs", strings.NewReader(answers+"\n\n"), io.Discard, false); err != nil {
		t.Error(err)
	}
	_, err := Ask("netbsd-zfs", strings.NewReader(answers+"\n\nhunter2\n"), io.Discard, false)
	if err == nil || !strings.Contains(err.Error(), "of the answers answers no question") ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("an answer too many gave %v", err)
	}
}

// TestNetBSD refuses what the recipe would ignore.
func TestNetBSD(t *testing.T) {
	const text = "schema: bakeoff/install/v1\nrecipe: netbsd-zfs\ndisk: /dev/wd0\nhostname: box\nsets_dir: /sets\n" +
		"ssh_keys: [" + rsa + "]\n"
	if _, err := Parse("f", []byte(text+"mirror: https://cdn.netbsd.org/pub/NetBSD\n")); err != nil {
		t.Error(err)
	}
	for _, c := range [][2]string{{"mirror: cdn.netbsd.org", "mirror is not valid"}, {"init: reboot", "prepare"},
		{"sets: [base, etc]", "sets lacks modules"}, {"sets: [base, etc, modules, etc]", `sets has "etc" twice`},
		{"sets: [modules, etc]", "sets lacks base"},
		{"packages: [vim]", "NetBSD has no packages"}, {"keymap: de", "NetBSD has no keymap"},
		{"esp_mib: 600", "NetBSD has no esp_mib"},
		{"locales: [de_DE.UTF-8]", "NetBSD has no locales"}, {"download_dir: /x", "NetBSD has no download_dir"}} {
		if _, err := Parse("f", []byte(text+c[0]+"\n")); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s gave %v", c[0], err)
		}
	}
}

// TestKernels refuses packages of the kernel that may be too new for ZFS, and those whose headers have no
// name that follows from it.
func TestKernels(t *testing.T) {
	const void = "schema: bakeoff/install/v1\nrecipe: void-zfs\ndisk: /dev/loop0\nhostname: box\n" +
		"mirror: https://repo.example/current\nsecrets: {pool: prompt, root: prompt}\n" +
		"zfsbootmenu: {file: /zbm.EFI, sha256: 0000000000000000000000000000000000000000000000000000000000000000}\n"
	debian := strings.Replace(void, "void-zfs", "debian-zfs", 1)
	named := strings.Replace(void, "loop0", "disk/by-id/usb-A#1=2@3-0:0", 1)
	for text, want := range map[string]string{
		void + "kernel: linux6.12": "", void + "packages: [linux-firmware]": "",
		debian + "kernel: linux-image-cloud-amd64": "", debian + "packages: [linux-perf]": "",
		named:                           "",
		void + "kernel: linux-mainline": "kernel is linux-mainline, whose next version may be too new",
		void + "packages: [linux-mainline-headers]":       "packages has linux-mainline-headers",
		debian + "packages: [g++, memtest86+]":            "",
		void + "packages: [nano+, vim-]":                  "",
		debian + "packages: [nano, vim-]":                 `packages has "vim-": apt takes - at the end for a request`,
		void + "kernel: linux":                            "too new for ZFS; use linux-lts",
		void + "kernel: linux-headers":                    "kernel is not valid",
		void + "packages: [vim, linux]":                   "packages has linux, whose next version may be too new for ZFS",
		void + "packages: [linux-headers]":                "packages has linux-headers",
		debian + "kernel: linux-lts":                      "kernel is not valid; write a package such as linux-image-amd64",
		void + "pool: {compatibility: openzfs-2.4-linux}": "",
		void + "pool: {compatibility: openzfs-9.9-linux}": "OpenZFS 2.4 of ZFSBootMenu 3.1 does not know",
	} {
		_, err := Parse("f", []byte(text+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s gave %v", text[len(void):], err)
		}
	}
}

// TestWords refuses locales and time zones that no system has, keymaps that the console of the system does not
// know, and swap that the system would not get.
func TestWords(t *testing.T) {
	for _, c := range [][3]string{{"debian13", "locale: de_DE.UTF-8", ""}, {"debian13", "locale: de_DE@euro", ""},
		{"debian13", "locale: C.UTF-8", ""}, {"debian13", "locale: klingon", "locale is not valid; write a locale of glibc"},
		{"debian13", "locale: de_XX.UTF-8", "f:13:9: locale is not valid"}, {"debian13", "locale: tok.UTF-8", ""},
		{"debian13", "locales: [ca_ES.UTF-8@valencia, ru_RU KOI8-R, zh_TW BIG5, eo]", ""},
		{"debian13", "locales: [de_DE.UTF-8, en_XX ISO-8859-1]", "locales.1 is not valid; write a locale of glibc"},
		{"debian13", "locales: [en_US ISO-8859-1, de_DE UTF8]", "locales.1 is not valid"},
		{"grub", "timezone: America/Argentina/Ushuaia", ""}, {"grub", "timezone: Etc/GMT+5", ""},
		{"grub", "timezone: Europe/Rmoe", "timezone is not in the database of time zones; write a zone such as"},
		{"grub", "timezone: Local", "timezone is not in the database"}, {"grub", "timezone: europe", "timezone"},
		{"debian13", "locale: C", "f:13:9: locale is not valid"},
		{"debian13", "locale: de_DE.ISO-8859-1", "locale is not valid"},
		{"debian13", "locale: en_US ISO-8859-1", "locale is not valid"},
		{"debian13", "locale: en_US@euro", "locale is not valid"}, {"debian13", "locale: sr_RS.UTF-8@latin", ""},
		{"debian13", "locales: [de_DE@latin]", "locales.0 is not valid"}, {"debian13", "locales: [gez_ET@abegede]", ""},
		{"debian13", "locales: [de_DE.ISO-8859-15@euro, en_US.ISO-8859-15 ISO-8859-15, de_DE.utf8 UTF-8]", ""},
		{"debian13", "locales: [de_DE.ISO-8859-15 UTF-8]", `"de_DE.ISO-8859-15 UTF-8" names two character sets`},
		{"debian13", "locales: [de_DE.EBCDIC]", "locales.0 is not valid"},
		{"debian12", "locale: tok.UTF-8", `Debian 12 has no locale "tok.UTF-8"; use release trixie`},
		{"debian12", "locales: [de_DE.UTF-8, su_ID]", `f:14:24: Debian 12 has no locale "su_ID"`},
		{"grub", "timezone: localtime", "not in the database"}, {"grub", "timezone: posix/Europe/Rome", "database"},
		{"grub", "timezone: europe/berlin", "not in the database"}, {"grub", "timezone: utc", "not in the database"},
		{"grub", "timezone: GMT+1", "not in the database"}, {"grub", "timezone: GMT+0", ""},
		{"grub", "timezone: posixrules", "not in the database"}, {"grub", "timezone: right/UTC", "database"},
		{"debian13", "libc: musl", "libc is for void-zfs only"}, {"netbsd", "libc: musl", "NetBSD has no libc"},
		{"article", "sets: [base]", "sets is for netbsd-zfs only"}, {"debian13", "sets_dir: /s", "netbsd-zfs only"},
		{"article", "release: trixie", "Void Linux has no releases"},
		{"debian13", "keymap: de", ""}, {"debian13", "keymap: de-latin1", ""}, {"debian13", "keymap: fr_CH", ""},
		{"debian13", "keymap: qwertz", "f:13:9: keymap is not valid; write a layout of XKB such as us or de, or a keymap"},
		{"grub", "keymap: de_DE", "keymap is not valid"},
		{"debian12", "swap_gib: 0", "f:14:11: swap_gib is 0; write 1 to 65536, or leave it out"},
		{"debian13", "swap_gib: 24", ""}, {"debian13", "swap_gib: 030", "swap_gib is 030; write 1 to 65536"},
		{"debian13", "esp_mib: 0", "esp_mib is 0; write 1024 to 65536, or leave it out"},
		{"debian13", "esp_mib: 02000", "is 02000"},
		{"debian12", "swap_gib: 8", "f:14:11: swap_gib is 8, but without secrets.swap the system has no swap"},
		{"debian12", "swap_gib: 99999999999999999999", `swap_gib is "99999999999999999999"; write a whole number`}} {
		src, err := os.ReadFile("../plan/testdata/" + c[0] + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse("f", []byte(string(src)+c[1]+"\n"))
		if (err == nil) != (c[2] == "") || err != nil && (!strings.Contains(err.Error(), c[2]) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s, %s: %v, want %q", c[0], c[1], err, c[2])
		}
	}
	for keymap, want := range map[string][2]string{"us": {"us"}, "de-latin1": {"de"}, "uk": {"gb"}, "la-latin1": {"latam"},
		"de-latin1-nodeadkeys": {"de", "nodeadkeys"}} {
		if layout, variant := XKB(keymap); layout != want[0] || variant != want[1] {
			t.Errorf("%s is %s, %s", keymap, layout, variant)
		}
	}
}

// TestSystemNames refuses users with the names of accounts and groups of the system.
func TestSystemNames(t *testing.T) {
	for _, c := range []struct{ file, name, want string }{
		{"debian13", "daemon", `f:13:12: "daemon" is the name of an account or a group of the system; choose another name`},
		{"debian13", "nobody", "of the system"}, {"debian13", "sudo", "of the system"}, {"debian13", "_apt", "of the system"},
		{"debian13", "systemd-network", "of the system"}, {"debian13", "root", "of the system"},
		{"debian13", "wheel", ""}, {"debian13", "guest", ""},
		{"article", "wheel", "of the system"}, {"article", "www-data", ""}, {"article", "kvm", "of the system"},
		{"debian13", "kvm", "of the system"}, {"debian13", "render", "of the system"}, {"debian13", "sgx", "of the system"},
	} {
		src, err := os.ReadFile("../plan/testdata/" + c.file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(src), "users:")
		_, err = Parse("f", []byte(head+"\nusers:\n  - {name: "+c.name+", password: prompt}\n"))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, user %s: %v, want %q", c.file, c.name, err, c.want)
		}
	}
}

// TestGroups refuses groups that usermod would not find, and those of other systems for administrators.
func TestGroups(t *testing.T) {
	for _, c := range [][3]string{{"article", "wheel, docker", ""}, {"debian13", "sudo, docker", ""},
		{"article", "sudo", `f:21:27: members of "sudo" may not become root; write wheel`},
		{"debian13", "wheel", "write sudo"}, {"debian13", "anna", ""},
		{"debian13", "bob", "write the user bob before this one"},
	} {
		src, err := os.ReadFile("../plan/testdata/" + c[0] + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(string(src), "users:")
		_, err = Parse("f", []byte(head+"users:\n  - {name: anna, groups: ["+c[1]+"], password: prompt}\n"+
			"  - {name: bob, groups: [anna], password: prompt}\n"))
		if (err == nil) != (c[2] == "") || err != nil && !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s, groups %s: %v, want %q", c[0], c[1], err, c[2])
		}
	}
}

// TestArguments refuses arguments of the kernel that the plan sets, or that contradict it.
func TestArguments(t *testing.T) {
	src, err := os.ReadFile("../plan/testdata/debian13.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"console=ttyS0", ""}, {"quiet", ""}, {"clearcpuid=erms", ""}, {"zfs_force=0", ""},
		{"hibernate=nocompress", ""}, {"modprobe.blacklist=pcspkr", ""}, {"lockdown=none", ""}, {"rd.luks=1", ""},
		{"noresume", "f:13:15: kernel_args has noresume: it discards the image"},
		{"nohibernate", "forbids hibernation"}, {"hibernate=noresume", "forbids hibernation"},
		{"zfs_force=1", "would import a pool that another system uses"}, {"zfs.force", "and damage it"},
		{"root=/dev/sda1", "the boot loader names the root"}, {"resume=/dev/sdz", "the plan sets it to the swap"},
		{"resume_offset=1", "resume_offset"}, {"spl.spl_hostid=0x00bab10c", "the pool is not imported"},
		{"spl_hostid=00bab10c", "the pool is not imported"}, {"rd.luks.uuid=1", "the plan sets it"},
		{"luks=no", "the swap would stay closed"}, {"zfs.zfs_arc_max=1", "memory is left to hibernate"},
		{"zfsforce=1", "damage it"}, {"zfsforce=off", ""}, {"zfs_force=No", "damage it"}, {"zfs_force=false", "damage it"},
		{"rd.luks=f", "the swap would stay closed"}, {"rd.luks=False", "the swap would stay closed"},
		{"rd.luks.crypttab=no", "crypttab opens the swap"}, {"luks.crypttab=0", "crypttab opens the swap"},
		{"usb-storage.quirks=0bda:9210:u", ""}, {"-x", "kernel_args.0 is not valid"},
		{"module-blacklist=zfs", "needs this module"}, {"spl.spl-hostid=1", "the pool is not imported"},
		{"luks.crypttab=yes", ""}, {"rd.luks.name=dead=x", "crypttab opens the swap, and names the opened device"},
		{"module.sig_enforce=N", ""}, {"noinitrd", "the initial RAM disk mounts the root"},
		{"lockdown=integrity", "no key that the kernel trusts"}, {"module.sig_enforce", "refuse the module of ZFS"},
		{"module_blacklist=x,zfs", "needs this module"}} {
		_, err := Parse("f", []byte(string(src)+"kernel_args: ['"+c[0]+"']\n"))
		if (err == nil) != (c[1] == "") || err != nil && !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s gave %v, want %q", c[0], err, c[1])
		}
	}
	// What only hibernation forbids.
	text := strings.Replace(string(src), "hibernate: true\n", "", 1) + "kernel_args: [noresume, zfs.zfs_arc_max=1]\n"
	if _, err := Parse("f", []byte(text)); err != nil {
		t.Error(err)
	}
}

// TestSizes refuses sizes of the ESP on which the system would not start, locales that no system
// has, and a choice that the firmware does not have.
func TestSizes(t *testing.T) {
	src, err := os.ReadFile("../plan/testdata/debian13.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"esp_mib: 2048", ""}, {"esp_mib: 1000", "write 1024 to 65536"},
		{"esp_mib: 1000\nzfsbootmenu: {file: /z.EFI, sha256: " + strings.Repeat("a", 64) + "}", ""},
		{"esp_mib: 100\nrelease: bookworm", "write 260 to 65536"}, {"locales: [de_DE.UTF-8, en_US ISO-8859-1]", ""},
		{"locales: ['x; y']", "locales.0 is not valid"}, {"libc: musl\nlocales: [de_DE.UTF-8]", "musl has no locales"},
		{"firmware: fallback", "systemd-boot makes a boot entry"}, {"firmware: entry", ""},
		{"firmware: bios", "use entry or fallback"}, {"init: none", "netbsd-zfs only"}, {"download_dir: /x", ""},
		{"download_dir: x", "download_dir is not valid"}, {"download_dir: '/a\"b'", "download_dir is not valid"},
		{"mirror_key: /root/mirror.asc", ""}, {"mirror_key: mirror.asc", "NAME.asc"},
		{"mirror_key: /root/mirror.gpg", "gpg --armor --export"}} {
		text := string(src)
		if strings.Contains(c[0], "release") {
			text = strings.Replace(text, "release: trixie\n", "", 1)
		}
		_, err := Parse("f", []byte(text+c[0]+"\n"))
		if (err == nil) != (c[1] == "") || err != nil && !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s gave %v, want %q", c[0], err, c[1])
		}
	}
}

// TestAskAgain asks again at a terminal, and names the line of an answer in a file.
func TestAskAgain(t *testing.T) {
	answers := "/dev/sda\n/dev/disk/by-id/x\n\n\nBOX\nbox\n"
	var out strings.Builder
	_, err := Ask("debian-zfs", strings.NewReader(answers), &out, true)
	if err != nil { // what is left has defaults
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"disk is not valid; write a path below /dev/disk/by-id, or a loop device",
		"hostname is not valid; write lower case letters", "Time zone [UTC]"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q was not said:\n%s", want, out.String())
		}
	}
	if _, err = Ask("debian-zfs", strings.NewReader(answers), io.Discard, false); err == nil ||
		!strings.Contains(err.Error(), "line 1 of the answers: disk") {
		t.Errorf("a wrong answer gave %v", err)
	}
	if _, err = Ask("void-zfs", strings.NewReader("/dev/disk/by-id/x\n"), io.Discard, true); err == nil ||
		!strings.Contains(err.Error(), "hostname") {
		t.Errorf("a missing answer gave %v", err)
	}
}

// TestSchema describes every key.
func TestSchema(t *testing.T) {
	var all struct {
		Properties map[string]struct {
			Description string
		}
	}
	if err := json.Unmarshal(JSONSchema(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Properties) < 20 {
		t.Errorf("%d keys", len(all.Properties))
	}
	for key, p := range all.Properties {
		if p.Description == "" {
			t.Errorf("%s has no description", key)
		}
	}
}

func FuzzAsk(f *testing.F) {
	f.Add("void-zfs", "/dev/disk/by-id/x\n\nbox\n")
	f.Fuzz(func(t *testing.T, recipe, answers string) {
		out, err := Ask(recipe, strings.NewReader(answers), io.Discard, false)
		if err != nil || len(Questions(recipe)) == 0 {
			return
		}
		if _, err := Parse("install.yaml", out); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

func FuzzParse(f *testing.F) {
	src, err := os.ReadFile("../plan/testdata/article.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src)
	f.Add([]byte("schema: bakeoff/install/v1\nusers: [{}, 3]\nsecrets: []\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := Parse("f", src)
		if err == nil && (s.Hostname == "" || !strings.HasPrefix(s.Disk, "/dev/")) {
			t.Errorf("accepted %+v", s)
		}
	})
}

// TestCommand splits the command of a secret as a shell does, and refuses what only a shell understands.
func TestCommand(t *testing.T) {
	src, err := os.ReadFile("../plan/testdata/debian13.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ref, want string }{
		{`command:echo "correct horse" it\'s`, "echo|correct horse|it's"}, {"command:op read 'a  $b'", "op|read|a  $b"},
		{"prompt", ""}, {"command: ", "the command is empty"}, {"command:''", "the command is empty"},
		{"command:echo $HOME", "only a shell replaces variables"}, {"command:cat $PWD/x", "only a shell replaces"},
		{"command:cat ~/x", "only a shell replaces variables"}, {"command:echo 'a", "only a shell understands"},
		{"command:cat x | head", "only a shell understands the command"}, {"command:echo $(cat x)", "only a shell"},
	} {
		words, err := Command(c.ref)
		if got := strings.Join(words, "|"); got != c.want && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %q, %v", c.ref, words, err)
		}
		text := strings.Replace(string(src), "pool: prompt", "pool: '"+strings.ReplaceAll(c.ref, "'", "''")+"'", 1)
		if _, perr := Parse("f", []byte(text)); (perr == nil) != (err == nil) ||
			err != nil && !strings.Contains(perr.Error(), "secrets.pool is not valid: "+c.want) {
			t.Errorf("%s: %v", c.ref, perr)
		}
	}
}

// TestHidden refuses files that the mounts of the new system would hide while the plan still needs them.
func TestHidden(t *testing.T) {
	digest := ", sha256: " + strings.Repeat("0", 64) + "}"
	for _, c := range [][3]string{
		{"debian13", "download_dir: /mnt", "f:13:15: download_dir is below /mnt, where the new system is mounted; put"},
		{"debian13", "download_dir: /mnt/../mnt/x", "download_dir is below /mnt"},
		{"debian13", "download_dir: //mnt//x", "/mnt"},
		{"debian13", "download_dir: /mnt2", ""}, {"debian13", "download_dir: /srv/mnt", ""},
		{"debian13", "base: {file: /mnt/usb/base.tar" + digest, "base.file is below /mnt"},
		{"debian13", "modules: {file: /x/../mnt/zfs-2.3.9.dkms.tar.gz" + digest, "modules.file is below /mnt"},
		{"debian13", "zfsbootmenu: {file: /mnt/zbm.EFI" + digest, "zfsbootmenu.file is below /mnt"},
		{"debian13", "mirror_key: /mnt/usb/m.asc", "mirror_key is below /mnt"},
		{"debian13", "mirror_key: /media/m.asc", ""},
	} {
		src, err := os.ReadFile("../plan/testdata/" + c[0] + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		_, err = Parse("f", []byte(string(src)+c[1]+"\n"))
		if (err == nil) != (c[2] == "") || err != nil && (!strings.Contains(err.Error(), c[2]) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", c[1], err, c[2])
		}
	}
	src, err := os.ReadFile("../plan/testdata/netbsd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{"/altroot/sets": true, "/mnt/efi": true, "/mnt/sets": false} {
		text := strings.Replace(string(src), "sets_dir: /sets", "sets_dir: "+dir, 1)
		_, err = Parse("f", []byte(text))
		if (err != nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestKeys refuses what the SSH server would not accept in authorized_keys.
func TestKeys(t *testing.T) {
	src, err := os.ReadFile("../plan/testdata/netbsd.yaml")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(src), "ssh_keys:")
	for key, want := range map[string]string{
		ed25519: "", ed25519 + " me": "", rsa: "",
		"ssh-dss AAAAB3NzaC1kc3MAAACBAP":                             "ssh_keys.0 is a DSA key (ssh-dss), which OpenSSH does",
		strings.Replace(ed25519, "ssh-ed25519", "ssh-rsa", 1):        "begins with ssh-rsa, but its data is of another type",
		"ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlc": "is a certificate",
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5":                           "its data ends too early",
		"ssh-ed25519 AAAAC3Nz":                                       "its data ends too early",
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampl":                "its base64 text is damaged or cut off",
		`from="192.0.2.1" ` + ed25519:                                "has options before the key",
		`restrict,command="a b" ` + ed25519 + " me":                  "does not support; write the key alone, and add",
		"cert-authority " + ed25519:                                  "has options before the key",
		"x":                                                          "ssh_keys.0 is not valid; write a public key",
	} {
		_, err := Parse("f", []byte(head+"ssh_keys: ['"+key+"']\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", key, err, want)
		}
	}
}
