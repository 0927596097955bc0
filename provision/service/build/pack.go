package build

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"bakeoff/base/lists"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/unpack"
	"bakeoff/reach/initramfs"
	"bakeoff/reach/wire"
)

// layer is the one layer of an image.
type layer struct {
	path string
	d    v1.Descriptor
	diff v1.Hash // of the tar file in it
}

// hashed is what was written, with its digest.
type hashed struct {
	w   io.Writer
	sum hash.Hash
	n   int64
}

func newHashed(w io.Writer) *hashed { return &hashed{w: w, sum: sha256.New()} }

func (h *hashed) Write(p []byte) (int, error) {
	n, err := h.w.Write(p)
	h.sum.Write(p[:n])
	h.n += int64(n)
	return n, err
}

func (h *hashed) digest() v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.sum.Sum(nil))}
}

// pack writes the root as a compressed tar file, without the time of the compression.
func (b *builder) pack(ctx context.Context, to string) (l layer, err error) {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return l, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := newHashed(f)
	z, err := gzip.NewWriterLevel(out, gzip.DefaultCompression)
	if err != nil {
		return l, err
	}
	plain := newHashed(z)
	in := unpack.Folder(b.root)
	defer in.Close()
	buffer := make([]byte, 1<<20)
	for {
		n, err := in.Read(buffer)
		if _, werr := plain.Write(buffer[:n]); werr != nil {
			return l, werr
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return l, err
		}
	}
	if err := z.Close(); err != nil {
		return l, err
	}
	return layer{path: to, diff: plain.digest(),
		d: v1.Descriptor{MediaType: types.OCILayer, Size: out.n, Digest: out.digest()}}, nil
}

// document is what an image consists of.
type document struct {
	blob             layer
	config           []byte
	manifestBytes    []byte
	configDescriptor v1.Descriptor
	manifest         v1.Descriptor
}

// image makes configuration and manifest.
func (b *builder) image(blob layer) (document, error) {
	c := v1.ConfigFile{Architecture: runtime.GOARCH, OS: "linux", Created: v1.Time{Time: epoch},
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{blob.diff}},
		History: []v1.History{{Created: v1.Time{Time: epoch}, CreatedBy: "bakeoff image build"}},
		Config: v1.Config{Entrypoint: b.def.Entrypoint, Cmd: b.def.Cmd, Env: b.environment(), User: b.def.User,
			WorkingDir: b.def.Dir, Labels: b.def.Labels}}
	for _, p := range b.def.Ports {
		if c.Config.ExposedPorts == nil {
			c.Config.ExposedPorts = map[string]struct{}{}
		}
		c.Config.ExposedPorts[p] = struct{}{}
	}
	d := document{blob: blob}
	var err error
	if d.config, err = json.Marshal(c); err != nil {
		return d, err
	}
	d.configDescriptor = describe(types.OCIConfigJSON, d.config)
	m := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Config: d.configDescriptor,
		Layers: []v1.Descriptor{blob.d}}
	if d.manifestBytes, err = json.Marshal(m); err != nil {
		return d, err
	}
	d.manifest = describe(types.OCIManifestSchema1, d.manifestBytes)
	return d, nil
}

func describe(t types.MediaType, b []byte) v1.Descriptor {
	return v1.Descriptor{MediaType: t, Size: int64(len(b)), Digest: layout.Digest(b)}
}

// usualPath is the PATH of programs if the definition has none.
const usualPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is that of the program.
func (b *builder) environment() []string {
	if slices.ContainsFunc(b.def.Env, func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		return b.def.Env
	}
	return append([]string{usualPath}, b.def.Env...)
}

// into puts the image into a layout.
func (d document) into(ctx context.Context) func(*layout.Layout) (v1.Descriptor, error) {
	return func(l *layout.Layout) (v1.Descriptor, error) {
		f, err := os.Open(d.blob.path)
		if err != nil {
			return v1.Descriptor{}, err
		}
		err = errors.Join(l.Put(ctx, d.blob.d, f), f.Close(), os.Remove(d.blob.path))
		if err == nil {
			_, err = l.PutBytes(d.config, types.OCIConfigJSON)
		}
		if err != nil {
			return v1.Descriptor{}, err
		}
		return l.PutBytes(d.manifestBytes, types.OCIManifestSchema1)
	}
}

// modules are those that a guest needs for its disk, its network, its channel, and to see
// that somebody presses its power button.
var modules = []string{"virtio_mmio", "virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "ext4", "button",
	"evdev"}

// vsockModules are those that a guest needs in Firecracker, instead of virtio_console and the
// button. A kernel that lacks one of them runs in QEMU only.
var vsockModules = []string{"vmw_vsock_virtio_transport", "i8042", "atkbd"}

// shareModules are those with which a guest mounts folders of the host. A kernel that lacks them
// runs guests without such folders.
var shareModules = []string{"virtiofs"}

// GuestAddr is the address of a guest that is alone in a network, as in the user-mode network of
// QEMU, if the kernel's command line has no other.
var GuestAddr = netip.MustParsePrefix("10.0.2.15/24")

// Port is the name of the virtio port on which the agent answers, beside the program of the
// service. A guest that has a program needs no such port.
const Port = "bakeoff"

// PartitionName is the name of the root in the partition table of a service's disk.
func PartitionName(service string) string { return service + "root" }

// ramDisk writes a RAM disk: with the whole service, or one that boots its disk.
func (b *builder) ramDisk(to string, whole bool) (err error) {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<20)
	// One thread: the bytes then depend on nothing else.
	level := zstd.SpeedDefault
	if !whole || b.base.Dir == "" {
		level = zstd.SpeedBetterCompression // it is small
	}
	z, err := zstd.NewWriter(out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(level))
	if err != nil {
		return err
	}
	if err := b.archive(initramfs.New(z), whole); err != nil {
		return err
	}
	return errors.Join(z.Close(), out.Flush())
}

func (b *builder) archive(a *initramfs.Archive, whole bool) error {
	if whole {
		if err := a.Tree(b.root, "/init", initramfs.ModuleDir, wire.InitConfigPath); err != nil {
			return err
		}
	}
	for _, d := range []string{"/dev", "/proc", "/sys", "/root"} {
		if err := a.Dir(d); err != nil {
			return err
		}
	}
	if err := a.Init(b.Agent); err != nil {
		return err
	}
	tree, err := initramfs.OpenTree(os.DirFS(filepath.Join(b.kernel.Modules, "lib/modules", b.kernel.KernelVersion)))
	if err != nil {
		return err
	}
	config := wire.InitConfig{Schema: wire.InitSchema, Hostname: b.def.Name, Port: Port}
	first, err := tree.Order(modules)
	if err != nil {
		return err
	}
	all := slices.Concat(modules, vsockModules)
	second, err := tree.Order(all)
	if err != nil {
		all, second = modules, first
	}
	more := slices.Concat(all, shareModules)
	if _, err := tree.Order(more); err == nil {
		all = more
	}
	paths, err := a.AddModules(tree, all)
	if err != nil {
		return err
	}
	config.Modules, config.VsockModules = paths[:len(first):len(first)], paths[len(first):len(second):len(second)]
	config.ShareModules = paths[len(second):]
	if !whole {
		config.Root, config.RootType = "partition:"+PartitionName(b.def.Name), "ext4"
	}
	if argv := b.def.Program(); len(argv) > 0 {
		config.Start = &wire.InitStart{Argv: argv, Env: b.environment(), Dir: b.def.Dir, User: b.def.User, Addr: GuestAddr}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if err := a.Text(wire.InitConfigPath, 0o600, text); err != nil {
		return err
	}
	return a.Close()
}

// Archive writes the image of a result as an OCI layout in a tar file, without times.
func Archive(l *layout.Layout, r Result, w io.Writer) error {
	digest, err := v1.NewHash(r.Digest)
	if err != nil {
		return err
	}
	info, err := os.Stat(l.Blob(digest))
	if err != nil {
		return err
	}
	d := v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: digest, Size: info.Size()}
	blobs, err := l.Blobs(layout.Image{Manifest: d})
	if err != nil {
		return err
	}
	d.Annotations = map[string]string{"org.opencontainers.image.ref.name": "latest"}
	index, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{d}})
	if err != nil {
		return err
	}
	t := newTar(w)
	t.text("index.json", index)
	t.text("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	seen := lists.Index(blobs, func(b v1.Descriptor) string { return b.Digest.Hex })
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		t.file("blobs/sha256/"+name, l.Blob(seen[name].Digest), seen[name].Size)
	}
	return t.close()
}

// cut splits NAME=VALUE.
func cut(e string) (name, value string) {
	name, value, _ = strings.Cut(e, "=")
	return name, value
}

// since is the time of a step as people read it.
func since(start time.Time) string { return time.Since(start).Round(100 * time.Millisecond).String() }
