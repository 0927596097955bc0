package probe

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/prepare/install/installed"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// recorded answers commands with texts, and files and folders with others.
type recorded struct {
	conn.Conn
	commands map[string]string // by the words of the command
	files    map[string]string
	asked    *[]string
}

func (r recorded) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	line := strings.Join(cmd.Argv, " ")
	*r.asked = append(*r.asked, line)
	out, ok := r.commands[line]
	if !ok {
		return conn.Exit{}, fault.New(fault.NotFound, "%s is missing", cmd.Argv[0])
	}
	if cmd.Stdout != nil {
		_, _ = cmd.Stdout.Write([]byte(out))
	}
	return conn.Exit{}, nil
}

func (r recorded) ReadFile(_ context.Context, name string) ([]byte, error) {
	if text, ok := r.files[name]; ok {
		return []byte(text), nil
	}
	return nil, fault.New(fault.NotFound, "%s is missing", name)
}

func (r recorded) ReadDir(_ context.Context, name string) ([]string, error) {
	if text, ok := r.files[name+"/"]; ok {
		return strings.Fields(text), nil
	}
	return nil, fault.New(fault.NotFound, "%s is missing", name)
}

func (recorded) WriteFile(context.Context, string, []byte) error { panic("the probe writes") }
func (recorded) Mkdir(context.Context, string) error             { panic("the probe writes") }
func (recorded) Rmdir(context.Context, string) error             { panic("the probe writes") }

const label = `------------------------------------
LABEL 0
------------------------------------
    version: 5000
    name: 'zroot'
    state: 0
    txg: 4
    pool_guid: 12345678901234567890
    hostid: 77191706
    hostname: 'delta'
    vdev_tree:
        type: 'disk'
        name: 'other'
`

// machineOfTheGuide is a machine with NVMe that runs from a pool.
func machineOfTheGuide() recorded {
	lsblk := strings.Join(lsblkArgs, " ")
	return recorded{asked: new([]string), commands: map[string]string{
		"uname -m": "x86_64\n", "uname -s": "Linux\n", "getconf GNU_LIBC_VERSION": "glibc 2.39\n",
		"zfs version": "zfs-2.3.4-1\nzfs-kmod-2.3.4-1\n", "dracut --version": "dracut 059-4\n",
		"systemctl --version": "systemd 257 (257.9-1)\n+PAM\n",
		lsblk: `{"blockdevices": [{"name":"nvme0n1","path":"/dev/nvme0n1","type":"disk","size":1000204886016,
			"log-sec":512,"phy-sec":4096,"rota":false,"disc-max":2199023255040,"serial":"S4EWNX0 ","mountpoints":[null],
			"children":[{"name":"nvme0n1p1","path":"/dev/nvme0n1p1","type":"part","size":536870912,"start":2048,
			"parttype":"c12a7328-f81f-11d2-ba4b-00a0c93ec93b","partuuid":"aaaa","mountpoints":["/boot/efi"],
			"fstype":"vfat","uuid":"4EB3-CBF1"},{"name":"nvme0n1p3","path":"/dev/nvme0n1p3","type":"part","size":9,
			"start":1050624,"fstype":"zfs_member","label":"zroot","mountpoints":[null]}]},
			{"name":"sdb","path":"/dev/sdb","type":"disk","size":99,"log-sec":4096,"mountpoints":[null],"children":[
			{"name":"sdb1","path":"/dev/sdb1","type":"part","start":2048,"fstype":"zfs_member","mountpoints":[null]}]},
			{"name":"sr0","path":"/dev/sr0","type":"rom","size":99,"mountpoints":[null]}]}`,
		"readlink -f /dev/disk/by-id/nvme-Example_S4EWNX0": "/dev/nvme0n1\n",
		"readlink -f /dev/disk/by-id/nvme-eui.01":          "/dev/nvme0n1\n",
		"readlink -f /dev/nvme0n1p3":                       "/dev/nvme0n1p3\n",
		"wipefs --json --output TYPE /dev/nvme0n1":         `{"signatures": [{"type":"gpt"},{"type":"PMBR"}]}`,
		"wipefs --json --output TYPE /dev/nvme0n1p1":       `{"signatures": [{"type":"vfat"}]}`,
		"wipefs --json --output TYPE /dev/nvme0n1p3":       "",
		"zpool get -Hp -o name,property,value all":         "zroot\tashift\t12\nzroot\tfeature@encryption\tactive\n",
		"zpool list -HPv -o name zroot":                    "zroot\n\t/dev/nvme0n1p3\n",
		"zdb -l /dev/nvme0n1p3":                            label,
		"zdb -l /dev/sdb1":                                 label,
		"zfs get -Hp -o name,property,value,source -t filesystem,volume all": "" +
			"zroot\tkeylocation\tfile:///etc/z.key\tlocal\n" +
			"zroot\torg.zfsbootmenu:commandline\tquiet resume=/dev/mapper/s\tlocal\n",
		"zfs list -H -t snapshot -o name": "zroot@a\n",
		"efibootmgr -v": "BootCurrent: 0000\nTimeout: 1 seconds\nBootOrder: 0000,0001\n" +
			"Boot0000* ZFSBootMenu\tHD(1,GPT,B385C262-08BF-3001-AE6E-8346F6B0434E,0x800,0x100000)/\\EFI\\ZBM\\VMLINUZ.EFI\n" +
			"Boot0001  Old\tHD(1,GPT,b385c262-08bf-3001-ae6e-8346f6b0434e,0x800,0x100000)/File(\\EFI\\OLD.EFI)\n",
		"stat -c %a /etc/z.key":                "0\n",
		"stat -c %a /boot/initramfs-6.12.img":  "600\n",
		"find /lib/modules/6.12 -name zfs.ko*": "/lib/modules/6.12/extra/zfs.ko.xz\n",
		"modinfo -k 6.12 -F version zfs":       "2.3.4-1\n",
		"lsinitrd /boot/initramfs-6.12.img": "dracut modules:\nzfs\nresume\n====\n" +
			"-rw-r--r--   1 root root 4 Jan  1  1970 etc/hostid\n",
		"lsinitrd --file /etc/hostid /boot/initramfs-6.12.img": "\x1a\xde\x9a\x04",
		"xbps-query -l": "ii zfs-2.4.4_1 Z File System\nuu broken-1_1 x\n",
	}, files: map[string]string{
		"/etc/os-release": "ID=\"void\"\n", "/proc/meminfo": "MemTotal:       16384000 kB\n", "/proc/1/comm": "runit\n",
		"/proc/mounts":   "zroot/ROOT/void / zfs rw 0 0\nproc /proc proc rw 0 0\n/dev/nvme0n1p1 /boot/efi vfat rw 0 0\n",
		"/proc/swaps":    "Filename Type Size Used Priority\n/dev/dm-0 partition 18874368 0 -2\n",
		"/sys/firmware/": "efi", "/sys/firmware/efi/efivars/": "SecureBoot-8be4df61 dump-type0-1 dump-type0-2",
		"/sys/firmware/efi/efivars/SecureBoot-8be4df61": "\x06\x00\x00\x00\x00",
		"/dev/disk/by-id/": "nvme-eui.01 nvme-Example_S4EWNX0", "/boot/": "vmlinuz-6.12 initramfs-6.12.img",
		"/etc/runit/runsvdir/default/": "dbus sshd",
	}}
}

func TestRecordedMachine(t *testing.T) {
	r := machineOfTheGuide()
	s, err := Read(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	text, err := JSON(s)
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "guide.json")
	if os.Getenv("BAKEOFF_UPDATE") != "" {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(want) {
		t.Errorf("the facts changed; if that is meant, run the test with BAKEOFF_UPDATE=1\n%s", text)
	}
	if again, err := installed.Read("facts", strings.NewReader(string(text))); err != nil ||
		again.RAMBytes != s.RAMBytes {
		t.Errorf("lint cannot read the facts: %v", err)
	}
	for _, line := range *r.asked {
		words := strings.Fields(line)
		if slices.Contains([]string{"zpool import", "zpool set", "zfs set", "wipefs -a"}, strings.Join(words[:2], " ")) {
			t.Errorf("the probe ran %s", line)
		}
	}
}

// TestHibernates recognizes machines that are set up to hibernate.
func TestHibernates(t *testing.T) {
	files := func(all ...string) (out map[string]installed.File) {
		out = map[string]installed.File{}
		for i := 0; i < len(all); i += 2 {
			out[all[i]] = installed.File{Text: all[i+1]}
		}
		return out
	}
	const crypttab = "swap UUID=1 /etc/swap.key luks,initramfs\ndata UUID=2 none luks\n"
	for _, c := range []struct {
		files   map[string]installed.File
		cmdline string
		want    bool
	}{
		{nil, "quiet resume=/dev/sda2", true}, {nil, "quiet noresume resume=", false},
		{files("etc/initramfs-tools/conf.d/resume", "RESUME=/dev/mapper/swap\n", "etc/crypttab", crypttab), "", true},
		{files("etc/initramfs-tools/conf.d/resume", "RESUME=/dev/mapper/data\n", "etc/crypttab", crypttab), "", false},
		{files("etc/initramfs-tools/conf.d/resume", "RESUME=UUID=3\n"), "", false},
		{files("etc/kernel/cmdline", "root=zfs:a resume=/dev/mapper/swap\n"), "", true},
		{files("etc/default/grub", "GRUB_CMDLINE_LINUX=\"resume=/dev/sda2\"\n"), "", true},
		{files("etc/default/grub", "#GRUB_CMDLINE_LINUX=\"resume=/dev/sda2\"\n"), "", false},
	} {
		if got := hibernates(installed.System{Files: c.files}, c.cmdline); got != c.want {
			t.Errorf("%v, %q: %v", c.files, c.cmdline, got)
		}
	}
}

// TestUnknown reads a machine that answers nothing: nothing may be 0, false or empty.
func TestUnknown(t *testing.T) {
	s, err := Read(t.Context(), recorded{asked: new([]string)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := JSON(s)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"ram_bytes", "disks", "blkid", "mounts", "swaps", "zpool", "zfs", "efibootmgr",
		"esp_files", "kernels", "initramfs", "packages", "services"} {
		if v, ok := all[k]; !ok || v != nil {
			t.Errorf("%s is %v, not null", k, v)
		}
	}
	if f := all["firmware"].(map[string]any); f["secure_boot"] != nil || f["efivars"] != nil || f["mode"] != nil {
		t.Errorf("firmware is %v", f)
	}
}

// TestPoolsUnknown: if zpool fails, it is known that no pool is imported only if the module of ZFS is not loaded.
// Otherwise it is also unknown what uses a disk.
func TestPoolsUnknown(t *testing.T) {
	for modules, known := range map[string]bool{"": false, "ext4 zfs": false, "ext4 zfs_x": true} {
		r := machineOfTheGuide()
		delete(r.commands, "zpool get -Hp -o name,property,value all")
		if modules != "" {
			r.files["/sys/module/"] = modules
		}
		s, err := Read(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if (s.Pools != nil) != known || (s.Disks[0].Users != nil) != known {
			t.Errorf("modules %q: the pools are %v, the users %v", modules, s.Pools, s.Disks[0].Users)
		}
	}
	for modules, known := range map[string]bool{"": false, "NAME CLASS\nzfs misc\n": false,
		"NAME CLASS\nffs vfs\n": true} {
		r := netbsdMachine()
		delete(r.commands, "zpool list -Hv -o name")
		if modules != "" {
			r.commands["modstat"] = modules
		}
		if d, _, err := Disk(t.Context(), r, "/dev/wd0"); err != nil || (d.Users != nil) != known {
			t.Errorf("modules %q: the users are %v, %v", modules, d.Users, err)
		}
	}
	r := machineOfTheGuide()
	delete(r.files, "/sys/firmware/efi/efivars/")
	if s, err := Read(t.Context(), r); err != nil || s.Firmware.EFIVars != nil {
		t.Errorf("EFI variables: %v, %v", s.Firmware.EFIVars, err)
	}
}

// TestThisMachine compares the probe with the kernel's own files, on the machine of the test.
func TestThisMachine(t *testing.T) {
	if testing.Short() {
		t.Skip("starts about 100 programs")
	}
	if _, err := exec.LookPath("lsblk"); err != nil {
		t.Skip("needs lsblk: apt-get install util-linux")
	}
	s, err := Read(t.Context(), local.Conn{})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range s.Disks {
		b, err := os.ReadFile("/sys/class/block/" + d.Name + "/size")
		if err != nil {
			continue // a loop device that another test closed
		}
		if got := strings.TrimSpace(string(b)); got != "0" && d.Size == 0 {
			t.Errorf("%s has %s sectors, not none", d.Name, got)
		}
		if d.System == nil || d.Users == nil {
			t.Errorf("%s: it is unknown who uses it", d.Name)
		}
	}
	if s.RAMBytes <= 0 || s.OS.Arch == "" || s.OS.ID == "" {
		t.Errorf("unknown: %d bytes of RAM, %+v", s.RAMBytes, s.OS)
	}
}

func FuzzParsers(f *testing.F) {
	r := machineOfTheGuide()
	for _, text := range r.commands {
		f.Add(text)
	}
	for _, text := range r.files {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		efi(text)
		dracutImage(text)
		labelOf(text)
		poolsOf(text)
		datasetsOf(text)
		vdevs(text)
		mounts(text)
		swaps(text)
		loops(text)
		digests(text, "/x")
		variables(text)
		signaturesOf(text)
		_ = hostID(text)
		if n := memTotal(text); n < 0 {
			t.Errorf("%d bytes of RAM", n)
		}
		for _, b := range blocks(text) {
			partitions(b)
			users(b)
			note(map[string]map[string]string{}, b)
		}
	})
}

// netbsd is a machine with NetBSD: wd0 is in use, wd1 is empty.
func netbsdMachine() recorded {
	return recorded{asked: new([]string), commands: map[string]string{
		"uname -s": "NetBSD\n", "uname -r": "11.0\n", "uname -m": "amd64\n", "sysctl -n hw.physmem64": "1073741824\n",
		"sysctl -n machdep.bootmethod": "UEFI\n", "sysctl -n hw.disknames": "wd0 dk0 dk1 wd1 cd0\n",
		"drvctl -p wd0 disk-info/geometry/sector-size":      "512\n",
		"drvctl -p wd0 disk-info/geometry/sectors-per-unit": "67108864\n",
		"drvctl -p wd1 disk-info/geometry/sector-size":      "512\n",
		"drvctl -p wd1 disk-info/geometry/sectors-per-unit": "134217728\n",
		"atactl wd0 identify":                               "Model: QEMU HARDDISK, Rev: 2.5+, Serial #: QM00001\n",
		"atactl wd1 identify":                               "Model: QEMU HARDDISK, Rev: 2.5+, Serial #: QM00002\n",
		"dkctl wd0 listwedges": "/dev/rwd0: 2 wedges:\ndk0: EFI, 262144 blocks at 2048, type: msdos\n" +
			"dk1: rpool, 66842624 blocks at 264192, type: zfs\n",
		"dkctl wd1 listwedges": "/dev/rwd1: no wedges configured\n",
		"mount": "/dev/dk0 on /efi type msdos (local)\n/dev/dk3 on /boot-ffs type ffs (local)\n" +
			"rpool/ROOT on / type zfs (local)\nkernfs on /kern type kernfs (local)\n",
		"zdb -l /dev/dk1":        strings.Replace(label, "zroot", "rpool", 1),
		"swapctl -l":             "Device 1K-blocks Used Avail Capacity Priority\n/dev/wd0b 262144 0 262144 0% 0\n",
		"zpool list -Hv -o name": "rpool\n\tdk1\t-\n",
		"gpt show wd0": "  start  size  index  contents\n 0 1  PMBR\n 1 1  Pri GPT header\n 2048 262144 1  " +
			"GPT part - EFI System\n",
		"gpt show wd1":    "GPT not found, displaying data from MBR.\n\n start  size  index  contents\n 0 9 Unused\n",
		"gpt show -g wd0": "  start  size  index  contents\n 1 1  Pri GPT header - 2B9B5F6D-0000-4000-8000-AABBCCDDEEFF\n",
	}}
}

// TestNetBSD reads disks by the programs of NetBSD.
func TestNetBSD(t *testing.T) {
	r := netbsdMachine()
	s, err := Read(t.Context(), r)
	if err != nil || len(s.Disks) != 2 || s.OS.ID != "netbsd" || s.Firmware.Mode != "uefi" || s.RAMBytes != 1<<30 {
		t.Fatalf("%+v, %v", s, err)
	}
	if want := []installed.Mount{{Source: "/dev/dk0", Target: "/efi", Type: "msdos"}, {Source: "/dev/dk3",
		Target: "/boot-ffs", Type: "ffs"}, {Source: "rpool/ROOT", Target: "/", Type: "zfs"}}; !slices.Equal(s.Mounts, want) {
		t.Errorf("mounts %+v", s.Mounts)
	}
	if b := s.Blkid["/dev/dk1"]; len(s.Blkid) != 1 || b["LABEL"] != "rpool" || b["UUID"] != "12345678901234567890" {
		t.Errorf("labels %v", s.Blkid)
	}
	used, empty := s.Disks[0], s.Disks[1]
	if p, q := used.Partitions, empty.Partitions; len(p) != 2 || p[0].Device != "/dev/dk0" || q == nil || len(q) > 0 {
		t.Errorf("partitions %+v and %+v", p, q)
	}
	if want := []string{"mounted on /efi", "swap on /dev/wd0b", "pool rpool"}; !slices.Equal(used.Users, want) {
		t.Errorf("users %q, want %q", used.Users, want)
	}
	if want := []string{"PMBR", "gpt", "msdos", "partition EFI System", "zfs"}; !slices.Equal(used.Signatures, want) {
		t.Errorf("signatures %q, want %q", used.Signatures, want)
	}
	if empty.Serial != "QM00002" || empty.Size != 64<<30 || empty.Users == nil || len(empty.Users) > 0 ||
		empty.Signatures == nil || len(empty.Signatures) > 0 {
		t.Errorf("%+v", empty)
	}
	if id, err := Table(t.Context(), r, "/dev/wd0"); err != nil || id != "2b9b5f6d-0000-4000-8000-aabbccddeeff" {
		t.Errorf("%s, %v", id, err)
	}
	// What a program does not say stays unknown.
	delete(r.commands, "gpt show wd1")
	delete(r.commands, "atactl wd1 identify")
	delete(r.commands, "swapctl -l")
	d, ok, err := Disk(t.Context(), r, "/dev/wd1")
	if err != nil || !ok || d.Serial != "" || d.Signatures != nil || d.Users != nil || d.System != nil {
		t.Errorf("%+v, %v, %v", d, ok, err)
	}
}

func FuzzNetBSD(f *testing.F) {
	r := netbsdMachine()
	for _, c := range []string{"gpt show wd0", "dkctl wd0 listwedges", "swapctl -l"} {
		f.Add(r.commands[c], r.commands["mount"])
	}
	f.Fuzz(func(t *testing.T, table, mounts string) {
		r := netbsdMachine()
		for _, c := range []string{"gpt show wd0", "dkctl wd0 listwedges", "zpool list -Hv -o name",
			"drvctl -p wd0 disk-info/geometry/sector-size"} {
			r.commands[c] = table
		}
		r.commands["mount"], r.commands["swapctl -l"] = mounts, mounts
		bsdMounts(mounts)
		if d, ok, _ := Disk(t.Context(), r, "/dev/wd0"); ok && d.Size <= 0 {
			t.Errorf("%+v", d)
		}
	})
}
