package main

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
	"bakeoff/provision/image"
	"bakeoff/provision/image/layout"
	"bakeoff/provision/image/reference"
	"bakeoff/provision/image/registry"
	"bakeoff/provision/image/unpack"
)

// material is what the parts work with.
type material struct {
	root, dir string // the root file system; a temporary folder
	image     bool   // the layout is there
	layers    []unpack.Layer
	host      string // of the registry
	server    *exec.Cmd
}

const tag = "bench"

// archive is the root as a tar file.
func (m *material) archive() string { return filepath.Join(m.dir, "root.tar.zst") }

// layoutFolder is the folder of the OCI image layout.
func (m *material) layoutFolder() string { return filepath.Join(m.dir, "layout") }

// imports unpacks a root file system.
func (m *material) imports() part {
	return part{name: "import", peer: "tar with zstd", goal: 0.9, needs: []string{"tar", "zstd"},
		ours: func(ctx context.Context, dir string) error {
			s := image.Store{Dir: filepath.Join(dir, "store")}
			_, err := s.Get(ctx, image.Request{Ref: "rootfs:" + m.archive()})
			return err
		},
		theirs: func(ctx context.Context, dir string) error {
			return command(ctx, "sh", "-c", `zstd -dcq "$1" | tar -C "$2" -xpf - --xattrs --xattrs-include='*' --numeric-owner &&
				sync -f "$2"`, "sh", m.archive(), dir)
		}}
}

// pullParts downloads an image into a layout.
func (m *material) pullParts() part {
	return part{name: "pull", peer: "skopeo copy", goal: 1.0, needs: []string{"tar", "docker-registry", "skopeo"},
		ours: func(ctx context.Context, dir string) error {
			ref, err := reference.Parse(m.host + "/image:" + tag)
			if err != nil {
				return err
			}
			l, err := layout.Open(filepath.Join(dir, "oci"))
			if err != nil {
				return err
			}
			c := registry.Client{Arch: runtime.GOARCH}
			_, err = c.Pull(ctx, ref, l)
			return err
		},
		theirs: func(ctx context.Context, dir string) error {
			return command(ctx, "skopeo", "copy", "-q", "--src-tls-verify=false", "docker://"+m.host+"/image:"+tag,
				"oci:"+filepath.Join(dir, "oci")+":"+tag)
		}}
}

// unpacks unpacks the layers of an image.
func (m *material) unpacks() part {
	return part{name: "unpack", peer: "umoci unpack", goal: 1.0, needs: []string{"tar", "umoci"},
		ours: func(ctx context.Context, dir string) error {
			if err := unpack.Unpack(ctx, filepath.Join(dir, "root"), m.layers, unpack.Options{}); err != nil {
				return err
			}
			return unpack.Sync(dir)
		},
		theirs: func(ctx context.Context, dir string) error {
			if err := command(ctx, "umoci", "unpack", "--image", m.layoutFolder()+":"+tag, filepath.Join(dir,
				"bundle")); err != nil {
				return err
			}
			return command(ctx, "sync", "-f", dir)
		}}
}

// prepare makes what a part needs.
func (m *material) prepare(ctx context.Context, name string) error {
	if name == "import" {
		return command(ctx, "sh", "-c", `tar -C "$1" -cf - --xattrs --numeric-owner . | zstd -q -o "$2"`, "sh",
			m.root, m.archive())
	}
	if !m.image {
		if err := m.buildImage(ctx); err != nil {
			return err
		}
		m.image = true
	}
	if name != "pull" || m.server != nil {
		return nil
	}
	if err := m.startRegistry(ctx); err != nil {
		return err
	}
	return command(ctx, "skopeo", "copy", "-q", "--dest-tls-verify=false", "oci:"+m.layoutFolder()+":"+tag,
		"docker://"+m.host+"/image:"+tag)
}

// parts of the root, each a layer, as arguments of tar.
var parts = [][]string{{"--exclude=./usr"}, {"--exclude=./usr/share"}, {"./usr/share"}}

// buildImage writes an image of three layers into a layout.
func (m *material) buildImage(ctx context.Context) error {
	l, err := layout.Open(m.layoutFolder())
	if err != nil {
		return err
	}
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1}
	config := v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}}
	for i, args := range parts {
		what := []string{"."}
		if i == 1 {
			what = []string{"./usr"}
		} else if i == 2 {
			what, args = args, nil
		}
		d, id, err := m.addLayer(ctx, l, append(args, what...))
		if err != nil {
			return err
		}
		manifest.Layers = append(manifest.Layers, d)
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, id)
		m.layers = append(m.layers, unpack.Layer{Name: fmt.Sprint("layer ", i+1), Size: d.Size, Digest: d.Digest.String(),
			DiffID: id.String(), Open: func() (io.ReadCloser, error) { return os.Open(l.Blob(d.Digest)) }})
	}
	b, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if manifest.Config, err = l.PutBytes(b, types.OCIConfigJSON); err != nil {
		return err
	}
	if b, err = json.Marshal(manifest); err != nil {
		return err
	}
	d, err := l.PutBytes(b, types.OCIManifestSchema1)
	if err != nil {
		return err
	}
	return l.Name(tag, d)
}

// addLayer puts what tar reads with args into the layout, compressed.
func (m *material) addLayer(ctx context.Context, l *layout.Layout, args []string) (v1.Descriptor, v1.Hash, error) {
	file, err := os.Create(filepath.Join(m.dir, "layer"))
	if err != nil {
		return v1.Descriptor{}, v1.Hash{}, err
	}
	defer file.Close()
	plain, packed := sha256.New(), sha256.New()
	zip := gzip.NewWriter(io.MultiWriter(file, packed))
	c := exec.CommandContext(ctx, "tar", append([]string{"-C", m.root, "-cf", "-", "--numeric-owner"}, args...)...)
	c.Stdout, c.Stderr = io.MultiWriter(zip, plain), os.Stderr
	if err := c.Run(); err != nil {
		return v1.Descriptor{}, v1.Hash{}, fault.Op("tar", err)
	}
	if err := zip.Close(); err != nil {
		return v1.Descriptor{}, v1.Hash{}, err
	}
	hash := func(b []byte) v1.Hash { return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(b)} }
	d := v1.Descriptor{MediaType: types.OCILayer, Digest: hash(packed.Sum(nil))}
	if d.Size, err = file.Seek(0, io.SeekEnd); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = l.Put(ctx, d, file)
	}
	return d, hash(plain.Sum(nil)), err
}

// startRegistry starts a registry.
func (m *material) startRegistry(ctx context.Context) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	m.host = free.Addr().String()
	if err := free.Close(); err != nil {
		return err
	}
	config := filepath.Join(m.dir, "registry.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"+
		"storage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\n", filepath.Join(m.dir, "registry"), m.host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	m.server = exec.Command("docker-registry", "serve", config)
	if err := m.server.Start(); err != nil {
		m.server = nil
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", m.host)
		if err == nil {
			return c.Close()
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return fault.New(fault.Lab, "docker-registry does not answer: %w", err)
		}
	}
}

// closeRegistry ends the registry.
func (m *material) closeRegistry() error {
	if m.server == nil {
		return nil
	}
	if err := m.server.Process.Kill(); err != nil {
		return err
	}
	_ = m.server.Wait() // it was killed
	return nil
}

// sizesText says what a part reads.
func (m *material) sizesText(name string) string {
	if name == "import" {
		info, err := os.Stat(m.archive())
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("%.0f MiB, compressed with zstd", float64(info.Size())/(1<<20))
	}
	sum := lists.Sum(m.layers, func(l unpack.Layer) int64 { return l.Size })
	return fmt.Sprintf("%d layers of %.0f MiB, compressed with gzip", len(m.layers), float64(sum)/(1<<20))
}
