package spec

import (
	"reflect"

	"bakeoff/base/jsonschema"
)

// described says what the keys of install.yaml mean.
var described = map[string]string{
	"Spec.schema":      "the version of the format: bakeoff/install/v1",
	"Spec.recipe":      "void-zfs, debian-zfs or netbsd-zfs",
	"Spec.release":     "debian-zfs: bookworm or trixie (the default); netbsd-zfs: the release",
	"Spec.disk":        "the disk that gets the system, below /dev/disk/by-id; a loop device; /dev/wd0 of NetBSD",
	"Spec.mirror_disk": "a second disk that mirrors the pool, and starts the system without the first",
	"Spec.destroy":     "signatures on the disk that bakeoff may destroy, as wipefs names them",
	"Spec.hostname":    "the name of the machine",
	"Spec.timezone":    "the time zone; the default is UTC",
	"Spec.keymap":      "the keymap of the console, for debian-zfs also a layout of XKB; the default is us",
	"Spec.locale":      "the default is en_US.UTF-8",
	"Spec.locales":     "more locales to build, such as de_DE.UTF-8 or en_US ISO-8859-1; not for musl and netbsd-zfs",
	"Spec.libc":        "void-zfs: glibc (the default) or musl",
	"Spec.mirror":      "the URL of the repository of packages; netbsd-zfs: a mirror that has the sets",
	"Spec.mirror_key":  "the key of that repository; void-zfs: its fingerprint; debian-zfs: a file NAME.asc",
	"Spec.sets":        "netbsd-zfs: the sets to install; the default is all sets except those of X",
	"Spec.sets_dir":    "netbsd-zfs: the folder with the sets, kernel and ramdisk, and their SHA512",
	"Spec.init": "netbsd-zfs: prepare (the default): init can start the new system; restart: bakeoff also ends " +
		"all programs, so that init starts it; or none",
	"Spec.download_dir": "not for netbsd-zfs: a folder into which bakeoff downloads the packages before it changes the " +
		"disk, or none",
	"Spec.kernel":        "the package of the kernel; netbsd-zfs: the configuration of the kernel",
	"Spec.kernel_args":   "arguments of the kernel, such as console=ttyS0; not for netbsd-zfs",
	"Spec.base":          "debian-zfs: an archive of mmdebstrap with the base system; without it, the target makes one",
	"Spec.modules":       "debian-zfs: an archive of dkms with built modules of ZFS; without it, the target builds them",
	"Spec.hibernate":     "whether the machine hibernates",
	"Spec.swap_gib":      "size of the swap, which needs secrets.swap; the default is the RAM plus an eighth",
	"Spec.esp_mib":       "size of the EFI system partition; the default is 512, or 1024 with unified kernel images",
	"Spec.firmware":      "entry (the default): make boot entries; fallback: make none, so EFI/BOOT/BOOTX64.EFI starts",
	"Spec.microcode":     "intel or amd",
	"Spec.desktop":       "whether to install KDE Plasma",
	"Spec.flatpak":       "whether to install Flatpak",
	"Spec.packages":      "more packages",
	"Spec.encryption":    "encryption of the pool: aes-256-gcm (the default) or off; the swap is always encrypted",
	"Spec.pool":          "how the pool is made",
	"Spec.datasets":      "datasets that are kept out of boot environments, parents first",
	"Pool.compression":   "lz4 (the default), zstd, off or another value of zfsprops(7)",
	"Pool.ashift":        "12 (the default) to 16",
	"Pool.autotrim":      "on (the default) or off",
	"Pool.compatibility": "the set of features that the pool may use; the default is a set that the boot loader can read",
	"Pool.properties":    "properties of the first dataset, which all others inherit",
	"Dataset.name":       "a name below the pool, such as var/log",
	"Dataset.mountpoint": "a path outside the boot environment, or none",
	"Dataset.properties": "properties as zfs set takes them",
	"Spec.zfsbootmenu":   "the image of ZFSBootMenu, a file on the machine that gets the system",
	"Spec.secrets":       "references to secrets: prompt, file:PATH or command:ARGV",
	"Spec.ssh_keys":      "public keys of root",
	"Spec.users":         "accounts besides root",
	"Loader.file":        "the path of a pinned release",
	"Loader.ssh_keys":    "void-zfs: public keys that may open the menu over SSH, on port 222",
	"Loader.sha256":      "its digest",
	"Archive.file":       "the path of the archive, on the machine that gets the system",
	"Archive.sha256":     "its digest",
	"Secrets.pool":       "passphrase of the pool, 8 to 512 bytes",
	"Secrets.swap":       "passphrase of the swap",
	"Secrets.root":       "root:HASH, as chpasswd -e reads it; HASH is from openssl passwd -6, or * for no password",
	"User.name":          "the name",
	"User.groups":        "its groups",
	"User.password":      "reference to NAME:HASH, as for secrets.root",
	"User.ssh_keys":      "its public keys",
}

// JSONSchema returns the JSON Schema (draft 2020-12) of install.yaml, for editors. It is
// indented and ends with a newline.
func JSONSchema() []byte {
	pattern := func(r string) jsonschema.Object { return jsonschema.Object{"pattern": r} }
	enum := func(all ...string) jsonschema.Object { return jsonschema.Object{"enum": all} }
	scalar := func(t reflect.Type) jsonschema.Object {
		if t.Kind() == reflect.String {
			return jsonschema.Object{"type": []string{"string", "integer", "number"}} // release: 11.0
		}
		return nil
	}
	t := jsonschema.Types{Scalar: scalar, Docs: described, Rules: map[string]jsonschema.Object{
		"Spec.schema": {"const": Schema}, "Spec.recipe": enum(Recipes...), "Spec.libc": enum("glibc", "musl"),
		"Spec.firmware":  enum("entry", "fallback"),
		"Spec.init":      enum(InitPrepare, InitRestart, InitNone),
		"Spec.microcode": enum("intel", "amd"), "Spec.hostname": pattern(hostname.String()),
		"Pool.compression": pattern(compression.String()), "Pool.ashift": {"minimum": 12, "maximum": 16},
		"Spec.encryption": enum("aes-256-gcm", "off"),
		"Pool.autotrim":   enum("on", "off"), "Dataset.name": pattern(setName.String()),
		"Dataset.mountpoint": pattern(mountpoint.String()),
		"Spec.download_dir":  pattern(downloads.String()),
		"Spec.swap_gib":      {"minimum": 1, "maximum": 1 << 16},
		"Spec.esp_mib":       {"minimum": 260, "maximum": 1 << 16}, "Loader.sha256": pattern(digest.String()),
		"Archive.sha256": pattern(digest.String()),
		"Secrets.pool":   pattern(secret.String()), "Secrets.swap": pattern(secret.String()),
		"Secrets.root": pattern(secret.String()), "User.password": pattern(secret.String()),
	}, Required: map[string][]string{"Spec": {"schema", "recipe", "disk", "hostname"},
		"User": {"name"}, "Dataset": {"name", "mountpoint"}}}
	return jsonschema.Document(t.SchemaOf(reflect.TypeFor[Spec]()), "bakeoff install")
}
