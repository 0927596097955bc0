package engine

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// The test binary stands in for the programs that this kernel cannot run or that no package
// here has: OpenZFS, Void's package manager, efibootmgr, and what needs the device mapper or
// vfat. They keep state, refuse what the real programs refuse, and keep their pool in the
// partition itself, so that a wipe destroys it. sgdisk, wipefs, blkid, partx, mkfs.vfat,
// mkswap, dd, install and LUKS are real.

// fakes are the programs by name.
var fakes = map[string]func(f *fake, args []string) error{
	"zpool": (*fake).zpool, "zfs": (*fake).zfs, "zdb": (*fake).zdb, "zgenhostid": (*fake).zgenhostid,
	"hostid": (*fake).hostid, "xbps-install": (*fake).xbpsInstall, "xbps-query": (*fake).xbpsQuery,
	"chroot": (*fake).chroot, "cryptsetup": (*fake).cryptsetup, "mount": (*fake).mount, "umount": (*fake).umount,
	"efibootmgr": (*fake).efibootmgr, "curl": (*fake).curl, "mmdebstrap": (*fake).mmdebstrap,
	"apt-get": (*fake).aptGet, "dpkg-deb": (*fake).dpkgDeb, "sync": (*fake).sync,
}

// fake is the state of the programs. keep outlives the machine, run does not.
type fake struct{ keep, run string }

// fakeMain runs the program that the test binary was started as.
func fakeMain(name string) int {
	f := &fake{os.Getenv("FAKE_KEEP"), os.Getenv("FAKE_RUN")}
	line := strings.Join(append(os.Args, os.Environ()...), "\x00")
	if bytes.Contains([]byte(line), []byte(secretMark)) {
		_ = os.WriteFile(f.keep+"/leak", []byte(line), 0o600)
	}
	do := fakes[name]
	if os.Getenv("FAKE_DISK") != "" {
		do = bsdFakes[name]
	}
	if err := do(f, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// xbpsQuery answers from the index of a repository, or with -r and -c from what a root and a cache have.
func (*fake) xbpsQuery(args []string) error {
	o, names := options(args, "rcp")
	name, repository, cat := names[len(names)-1], "", ""
	for _, a := range args {
		if url, ok := strings.CutPrefix(a, "--repository="); ok {
			repository = url
		}
		if file, ok := strings.CutPrefix(a, "--cat="); ok {
			cat = file
		}
	}
	if o["r"] == nil {
		if _, err := get(repository + "/" + os.Getenv("XBPS_ARCH") + "-repodata"); err != nil {
			return fmt.Errorf("failed to fetch repository `%s': %w", repository, err)
		}
	} else if _, err := os.Stat(indexOf(o["r"][0], repository)); err != nil {
		return err
	}
	const meta = "/usr/src/zfs-2.4.1/META"
	_, err := os.Stat(strings.Join(o["c"], "") + "/" + pkgver(name) + ".x86_64.xbps")
	switch {
	case o["p"] != nil:
		fmt.Println(pkgver(name))
		return nil
	case err != nil:
		return err
	case o["f"] != nil:
		fmt.Println("/usr/bin/zpool\n" + meta)
	case cat == meta:
		fmt.Print(zfsMeta("2.4.1"))
	}
	return nil
}

// zfsMeta is the file META in the source of ZFS.
func zfsMeta(version string) string {
	return "Version:       " + version + "\nLinux-Maximum: " + cmp.Or(os.Getenv("FAKE_LINUX"), "6.12") + "\n"
}

// dpkgDeb prints the files of the package of ZFS.
func (f *fake) dpkgDeb(args []string) error {
	if args[0] != "--fsys-tarfile" || !strings.HasPrefix(filepath.Base(args[1]), "zfs-dkms_") {
		return fmt.Errorf("unexpected arguments %q", args)
	}
	t, text := tar.NewWriter(os.Stdout), zfsMeta("2.3.9")
	err := t.WriteHeader(&tar.Header{Name: "./usr/src/zfs-2.3.9/META", Mode: 0o644, Size: int64(len(text))})
	_, werr := io.WriteString(t, text)
	return errors.Join(err, werr, t.Close())
}

// xbpsInstall installs packages into the root of -r, from the repositories of -R or those of the
// root. It takes them from the cache if they are there, or only downloads them to that of -c.
func (f *fake) xbpsInstall(args []string) error {
	o, packages := options(args, "Rrc")
	root := o["r"][0]
	for _, p := range packages { // the package of a series depends on its kernel
		if rest, ok := strings.CutPrefix(p, "linux-lts"); ok {
			packages = append(packages, "linux6.12"+rest)
		}
	}
	urls := o["R"]
	if len(urls) == 0 {
		files, _ := filepath.Glob(root + "/etc/xbps.d/*-repository-*.conf")
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			urls = append(urls, strings.TrimSpace(strings.TrimPrefix(string(text), "repository=")))
		}
	}
	if slices.Contains(packages, "base-system") { // it depends on the newest kernel
		conf, _ := os.ReadFile(root + "/etc/xbps.d/10-kernel.conf")
		if !bytes.Contains(conf, []byte("ignorepkg=linux\n")) {
			packages = append(packages, "linux")
		}
	}
	if len(o["Mn"]) > 0 {
		return dryRun(urls, packages)
	}
	if len(o["Sy"]) > 0 {
		if err := xbpsSync(root, urls); err != nil {
			return err
		}
	}
	cache := root + "/var/cache/xbps"
	only := len(o["-download-only"]) > 0
	if only {
		cache = o["c"][0]
	}
	if err := verified(root, urls, cache, packages); err != nil || only {
		return err
	}
	return f.unpack(root, packages...)
}

// unpack makes what packages have that the plan looks at.
func (f *fake) unpack(root string, packages ...string) error {
	put := func(name, text string, mode os.FileMode) error {
		if err := os.MkdirAll(filepath.Dir(root+name), 0o755); err != nil {
			return err
		}
		return os.WriteFile(root+name, []byte(text), mode)
	}
	for _, p := range packages {
		var err error
		switch p {
		case os.Getenv("FAKE_FAIL"):
			return errors.New("the mirror is gone")
		case "base-system":
			for _, d := range []string{"dev", "proc", "sys", "boot", "etc", "root", "home", "run"} {
				err = errors.Join(err, os.MkdirAll(root+"/"+d, 0o755))
			}
			if _, gone := os.Stat(root + "/etc/passwd"); gone != nil {
				err = errors.Join(err, put("/etc/passwd", "root:x:0:0::/root:/bin/sh\n", 0o644),
					put("/etc/shadow", "root:!:1::::::\n", 0o600))
			}
		case "linux": // ZFS does not support it
			err = put("/usr/lib/modules/7.1/modules.builtin", "", 0o644)
		case "linux-lts":
			err = errors.Join(put("/boot/vmlinuz-6.12", "kernel", 0o644),
				put("/usr/lib/modules/6.12/modules.builtin", "", 0o644))
		case "zfs":
			err = errors.Join(put("/usr/lib/modules/6.12/extra/zfs.ko", "module", 0o644),
				put("/usr/lib/modules/6.12/modules.dep", "extra/zfs.ko: extra/spl.ko\n", 0o644), f.initramfs(root))
		}
		if err = errors.Join(err, put("/var/db/xbps/"+p, "installed", 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// debian does what programs of Debian would do in a root.
func (f *fake) debian(root string, args []string) (known bool, err error) {
	put := func(name, text string) error {
		return errors.Join(os.MkdirAll(filepath.Dir(root+name), 0o755), os.WriteFile(root+name, []byte(text), 0o644))
	}
	last := args[len(args)-1]
	switch args[0] {
	case "apt-get":
		switch args[1] {
		case "update":
			return true, aptUpdate(root)
		case "clean":
			return true, errors.Join(os.RemoveAll(root+"/var/cache/apt/archives"),
				os.Mkdir(root+"/var/cache/apt/archives", 0o755))
		case "full-upgrade":
			return true, aptInstall(root, nil, true)
		}
		_, packages := options(args[1:], "o")
		if err := aptInstall(root, packages[1:], true); err != nil {
			return true, err
		}
		for _, p := range packages[1:] {
			err = errors.Join(err, put("/var/lib/dpkg/info/"+p+".list", ""))
			switch p {
			case os.Getenv("FAKE_FAIL"):
				return true, errors.New("the mirror is gone")
			case "linux-image-amd64":
				err = errors.Join(err, f.unpack(root, "linux-lts"))
			case "systemd-boot":
				err = errors.Join(err, put("/boot/efi/EFI/Linux/debian-6.12.efi", "image"),
					put("/boot/efi/EFI/BOOT/BOOTX64.EFI", "loader"), put("/boot/efi/EFI/systemd/systemd-bootx64.efi", "loader"))
			case "zfs-dracut":
				err = errors.Join(err, f.unpack(root, "zfs"))
			}
		}
	case "dpkg":
		err = os.MkdirAll(root+"/var/lib/dpkg/updates", 0o755)
	case "dpkg-query":
		var lists []string
		lists, err = filepath.Glob(root + "/var/lib/dpkg/info/*.list")
		for _, list := range lists {
			switch name := strings.TrimSuffix(filepath.Base(list), ".list"); {
			case name == last:
				fmt.Print("ii .")
			case strings.HasPrefix(last, "$"): // a format, for all packages
				fmt.Println("ii " + name)
			}
		}
	case "dracut":
		err = f.initramfs(root)
	case "lsinitrd":
		var b []byte
		b, err = os.ReadFile(root + last)
		fmt.Println(string(b))
	case "find": // -exec lsinitrd
		var image []byte
		image, err = os.ReadFile(root + "/boot/initramfs-6.12.img")
		listImage(string(image), slices.Contains(args, "--mod"))
	case "locale-gen":
		err = put("/etc/locale-built", "en_US.utf8\n")
	case "systemctl":
		link := "/etc/systemd/system/multi-user.target.wants/" + last
		if args[1] == "enable" {
			err = put(link, "")
		} else {
			err = os.RemoveAll(root + link)
		}
	case "grub-probe":
		fmt.Println("zfs")
	case "grub-install":
		if last == "--removable" {
			err = put("/boot/efi/EFI/BOOT/BOOTX64.EFI", "GRUB")
		} else {
			err = put("/boot/efi/EFI/debian/grubx64.efi", "GRUB")
		}
	case "update-grub":
		var b []byte
		b, err = os.ReadFile(root + "/etc/default/grub")
		_, line, _ := strings.Cut(string(b), `GRUB_CMDLINE_LINUX="`)
		err = errors.Join(err, put("/boot/grub/grub.cfg", "linux /BOOT/debian@/vmlinuz-6.12 "+line))
	default:
		return false, nil
	}
	return true, err
}

// listImage prints what lsinitrd shows of an image: its files, or the modules of dracut.
func listImage(image string, modules bool) {
	fmt.Println("Image: /boot/initramfs-6.12.img: 46M")
	for line := range strings.Lines(image) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "+=")
		for _, word := range strings.Fields(strings.Trim(value, `"`)) {
			switch {
			case modules && name == "add_dracutmodules":
				fmt.Println(word)
			case !modules && name == "install_items":
				fmt.Println("-rw-r--r-- 1 root root 64 Jan  1  1970 " + word[1:])
			}
		}
	}
	if !modules {
		fmt.Println("usr/lib/modules/6.12/extra/zfs.ko\netc/hostid")
	}
}

// initramfs builds an image from the configuration of dracut, and with its umask. It leaves out
// a module that it does not find.
func (*fake) initramfs(root string) error {
	var all strings.Builder
	mode := os.FileMode(0o644)
	files, _ := filepath.Glob(root + "/etc/dracut.conf.d/*.conf")
	for _, name := range files {
		b, _ := os.ReadFile(name)
		if omit := os.Getenv("FAKE_OMIT"); omit != "" {
			b = bytes.ReplaceAll(b, []byte(" "+omit+" "), []byte(" "))
		}
		all.Write(b)
		if bytes.Contains(b, []byte("umask=0077")) {
			mode = 0o600
		}
	}
	name := root + "/boot/initramfs-6.12.img"
	return errors.Join(os.WriteFile(name, []byte(all.String()), mode), os.Chmod(name, mode))
}

// chroot does what the program of the new system would do.
func (f *fake) chroot(args []string) error {
	root, args := args[0], args[1:]
	if _, err := os.Stat(root + "/etc/passwd"); err != nil {
		return fmt.Errorf("failed to run command '%s': No such file or directory", args[0])
	}
	passwd, shadow := root+"/etc/passwd", root+"/etc/shadow"
	for args[0] == "env" || strings.Contains(args[0], "=") {
		args = args[1:]
	}
	if known, err := f.debian(root, args); known {
		return err
	}
	last := args[len(args)-1]
	switch args[0] {
	case "xbps-install":
		return f.xbpsInstall(append([]string{"-r", root}, args[1:]...))
	case "xbps-reconfigure":
		if last == "-fa" {
			return f.initramfs(root)
		}
		return os.WriteFile(root+"/etc/locale-built", []byte("en_US.utf8\n"), 0o644)
	case "locale":
		b, err := os.ReadFile(root + "/etc/locale-built")
		fmt.Print(string(b))
		return err
	case "chpasswd":
		in, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		name, hash, ok := strings.Cut(strings.TrimSpace(string(in)), ":")
		if !ok {
			return errors.New("line 1: missing new password")
		}
		return replaceLine(shadow, name, hash+":1::::::")
	case "useradd":
		return errors.Join(replaceLine(passwd, last, "x:1000:1000::/home/"+last+":/bin/sh"),
			replaceLine(shadow, last, "!:1::::::"), os.MkdirAll(root+"/home/"+last, 0o700))
	case "usermod":
		return os.WriteFile(root+"/etc/group", []byte(args[2]+":"+last+"\n"), 0o644)
	case "id":
		b, _ := os.ReadFile(passwd)
		if !bytes.Contains(b, []byte("\n"+last+":")) {
			return fmt.Errorf("'%s': no such user", last)
		}
		fmt.Println(last)
		return nil
	case "ln":
		_ = os.Remove(root + last)
		if err := os.MkdirAll(filepath.Dir(root+last), 0o755); err != nil {
			return err
		}
		return os.Symlink(args[2], root+last)
	case "chmod":
		mode, _ := strconv.ParseUint(args[1], 8, 32)
		return os.Chmod(root+last, os.FileMode(mode))
	case "chown":
		return nil
	case "mkdir":
		for _, d := range args[2:] {
			if err := os.MkdirAll(root+d, 0o755); err != nil {
				return err
			}
		}
		return nil
	case "ssh-keygen":
		return f.real("ssh-keygen", append(slices.Clone(args[1:len(args)-1]), root+last)...)
	case "generate-zbm":
		conf, err := os.ReadFile(root + "/etc/zfsbootmenu/dracut.conf.d/dropbear.conf")
		to := root + "/boot/efi/EFI/ZBM-SSH/vmlinuz.EFI"
		return errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to,
			append(conf, "usr/sbin/dropbear\nroot/.ssh/authorized_keys\n"...), 0o644))
	case "/usr/local/sbin/esp-sync": // the real script, without the change of the root
		return f.real("env", "ESP_FIRST="+root+"/boot/efi", "ESP_SECOND="+root+"/boot/efi2",
			"ESP_STATE="+root+"/var/lib/esp-sync", "sh", root+args[0])
	case "flatpak":
		return os.WriteFile(root+"/etc/flathub", nil, 0o644)
	}
	return fmt.Errorf("failed to run command '%s': No such file or directory", args[0])
}

// replaceLine replaces the line of a name. As with the real programs, a kill leaves the old file or the new one.
func replaceLine(file, name, rest string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, name+":") {
			out.WriteString(line)
		}
	}
	next := file + "+"
	return errors.Join(os.WriteFile(next, []byte(out.String()+name+":"+rest+"\n"), 0o600), os.Rename(next, file))
}

// flush archives what a file system holds at this moment, for the machine to find after a power cut.
func (f *fake) flush(what string) error {
	to := f.keep + "/flushed/" + strings.ReplaceAll(what, "/", "-") + ".tar"
	next := fmt.Sprintf("%s.%d", to, os.Getpid())
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if out, err := exec.Command("/bin/tar", "-C", f.keep, "-cf", next, what).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return os.Rename(next, to)
}

// sync flushes an ESP, or what is mounted.
func (f *fake) sync(args []string) error {
	if len(args) == 2 && args[0] == "-f" {
		return f.flush("esp/" + filepath.Base(args[1]))
	}
	var all []error
	for _, what := range []string{"esp/*", "pool/*"} {
		dirs, _ := filepath.Glob(f.keep + "/" + what)
		for _, dir := range dirs {
			all = append(all, f.flush(strings.TrimPrefix(dir, f.keep+"/")))
		}
	}
	return errors.Join(all...)
}

// real runs the program that a fake hides.
func (f *fake) real(name string, args ...string) error {
	cmd := exec.Command("/usr/sbin/"+name, args...)
	if _, err := os.Stat(cmd.Path); err != nil {
		cmd = exec.Command("/bin/"+name, args...)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// cryptsetup is real but for open, close and status, which need the device mapper: open
// tests the passphrase, and then shows the partition behind the header of LUKS1.
func (f *fake) cryptsetup(args []string) error {
	o := strings.Join(args, " ")
	name := args[len(args)-1]
	link := "/dev/mapper/" + name
	switch {
	case args[0] == "luksFormat":
		return f.real("cryptsetup", append(slices.Clone(args), "--pbkdf-force-iterations", "1000")...)
	case args[0] == "luksAddKey":
		return f.real("cryptsetup", append(slices.Clone(args), "--pbkdf-force-iterations", "1000")...)
	case args[0] == "status":
		if _, err := os.Readlink(link); err != nil {
			fmt.Printf("%s is inactive.\n", link)
			return errors.New("inactive")
		}
		fmt.Printf("%s is active.\n", link)
		return nil
	case args[0] == "close":
		to, err := os.Readlink(link)
		if err != nil {
			return err
		}
		return errors.Join(f.real("losetup", "-d", to), os.Remove(link))
	case args[0] == "open" && !strings.Contains(o, "--test-passphrase"):
		test := []string{
			"open",
			"--test-passphrase",
			"--key-file",
			args[slices.Index(args, "--key-file")+1],
			args[len(args)-2],
		}
		if err := f.real("cryptsetup", test...); err != nil {
			return err
		}
		out, err := exec.Command("/usr/sbin/losetup", "-f", "--show", "-o", "2097152", args[len(args)-2]).Output()
		if err != nil {
			return err
		}
		return os.Symlink(strings.TrimSpace(string(out)), link)
	}
	return f.real("cryptsetup", args...)
}

// mount is real, but shows a folder in place of the ESP, which umount writes to the FAT with
// mtools.
func (f *fake) mount(args []string) error {
	at := args[len(args)-1]
	esp := filepath.Base(at)
	if !strings.HasPrefix(esp, "efi") {
		return f.real("mount", args...)
	}
	if err := exec.Command("/usr/sbin/blkid", "-p", args[len(args)-2]).Run(); err != nil {
		return errors.New("wrong fs type, bad superblock")
	}
	if err := os.MkdirAll(f.keep+"/esp/"+esp, 0o700); err != nil {
		return err
	}
	_ = os.WriteFile(f.run+"/esp-"+esp, []byte(args[len(args)-2]), 0o600)
	return syscall.Mount(f.keep+"/esp/"+esp, at, "", syscall.MS_BIND, "")
}

func (f *fake) umount(args []string) error {
	if esp := filepath.Base(args[len(args)-1]); strings.HasPrefix(esp, "efi") {
		device, err := os.ReadFile(f.run + "/esp-" + esp)
		if err != nil {
			return err
		}
		if err := f.flush("esp/" + esp); err != nil {
			return err
		}
		dirs, _ := filepath.Glob(f.keep + "/esp/" + esp + "/*")
		if len(dirs) > 0 {
			cmd := exec.Command("mcopy", append([]string{"-s", "-o", "-i", string(device)}, append(dirs, "::")...)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("mcopy: %w: %s", err, out)
			}
		}
	}
	return f.real("umount", args...)
}

// efibootmgr keeps the entries in a file, which is the firmware's.
func (f *fake) efibootmgr(args []string) error {
	name := f.keep + "/nvram"
	entries := map[string]string{}
	if b, err := os.ReadFile(name); err == nil {
		if err := json.Unmarshal(b, &entries); err != nil {
			return err
		}
	}
	if args[0] == "-v" {
		for i, label := range slices.Sorted(maps.Keys(entries)) {
			fmt.Printf("Boot%04X* %s\t%s\n", i, label, entries[label])
		}
		return nil
	}
	o, _ := options(args, "dpLl")
	out, err := exec.Command("/usr/sbin/blkid", "-p", "-s", "PART_ENTRY_UUID", "-o", "value", o["d"][0]+"p1").Output()
	if err != nil {
		return err
	}
	if _, taken := entries[o["L"][0]]; taken {
		o["L"][0] += " again" // the real program never replaces
	}
	entries[o["L"][0]] = fmt.Sprintf("HD(1,GPT,%s,0x800,0x100000)/%s", strings.TrimSpace(string(out)), o["l"][0])
	b, _ := json.Marshal(entries)
	return os.WriteFile(name, b, 0o600)
}
