package engine

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto"
	"crypto/md5"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// repository is a repository of packages of Void. Its index names its key, and each package
// has a signature, in the formats of xbps.
type repository struct {
	url         string
	key         *rsa.PrivateKey
	fingerprint string
	spoiled     string           // a package that was changed after it was signed
	sizes       map[string]int64 // in the index, of packages that it says are large; others have a KiB
	outage
}

// outage is the end of a server.
type outage struct {
	gone    func() bool
	refused atomic.Int64 // requests after it was gone
}

// refuses reports whether the server is gone, and answers the request then.
func (o *outage) refuses(w http.ResponseWriter) bool {
	if o.gone == nil || !o.gone() {
		return false
	}
	o.refused.Add(1)
	http.Error(w, "the mirror is gone", http.StatusServiceUnavailable)
	return true
}

// newRepository starts a repository that has every package, and writes its key to a folder.
func newRepository(t *testing.T, keys string) *repository {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	r := &repository{key: key, fingerprint: fingerprint(&key.PublicKey)}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.url = s.URL + "/current"
	if err := os.WriteFile(filepath.Join(keys, r.fingerprint+".plist"), r.meta(), 0o644); err != nil {
		t.Fatal(err)
	}
	return r
}

// fingerprint is that of OpenSSH, with MD5, as xbps names keys.
func fingerprint(key *rsa.PublicKey) string {
	var blob []byte
	for _, part := range [][]byte{[]byte("ssh-rsa"), {1, 0, 1}, append([]byte{0}, key.N.Bytes()...)} {
		blob = append(binary.BigEndian.AppendUint32(blob, uint32(len(part))), part...)
	}
	return strings.ReplaceAll(fmt.Sprintf("% x", md5.Sum(blob)), " ", ":")
}

// meta is the index-meta.plist of the repository, which is the form of a stored key too.
func (r *repository) meta() []byte {
	der, err := x509.MarshalPKIXPublicKey(&r.key.PublicKey)
	if err != nil {
		panic(err)
	}
	text := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	return fmt.Appendf(nil, "<plist version=\"1.0\">\n<dict>\n\t<key>public-key</key>\n\t<data>%s</data>\n"+
		"\t<key>public-key-size</key>\n\t<integer>2048</integer>\n\t<key>signature-by</key>\n\t<string>tests</string>\n"+
		"</dict>\n</plist>\n", text)
}

func (r *repository) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	name := path.Base(q.URL.Path)
	file, signature := strings.CutSuffix(name, ".sig2")
	text := []byte("the package " + file)
	switch {
	case r.refuses(w):
	case name == "x86_64-repodata":
		z := gzip.NewWriter(w)
		t := tar.NewWriter(z)
		for _, f := range []string{"index.plist", "index-meta.plist"} {
			text := []byte("<plist version=\"1.0\"><dict>")
			for pkg, size := range r.sizes {
				text = fmt.Appendf(text, "<key>%s</key><dict><key>filename-size</key><integer>%d</integer></dict>", pkg, size)
			}
			text = append(text, "</dict></plist>\n"...)
			if f == "index-meta.plist" {
				text = r.meta()
			}
			_ = t.WriteHeader(&tar.Header{Name: f, Mode: 0o644, Size: int64(len(text))})
			_, _ = t.Write(text)
		}
		_ = t.Close()
		_ = z.Close()
	case signature:
		sum := sha256.Sum256(text)
		text, err := rsa.SignPKCS1v15(nil, r.key, crypto.SHA256, sum[:])
		if err != nil {
			panic(err)
		}
		_, _ = w.Write(text)
	case strings.HasSuffix(name, ".xbps"):
		if strings.HasPrefix(name, r.spoiled+"-1_1.") {
			text = append(text, " of somebody else"...)
		}
		_, _ = w.Write(text)
	default:
		http.NotFound(w, q)
	}
}

func get(url string) ([]byte, error) {
	resp, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(resp.Body)
}

var dataOf = regexp.MustCompile(`<key>public-key</key>\s*<data>([^<]*)</data>`)

// publicKey reads the key in a plist.
func publicKey(plist []byte) (*rsa.PublicKey, error) {
	found := dataOf.FindSubmatch(plist)
	if found == nil {
		return nil, errors.New("no public key")
	}
	text, err := base64.StdEncoding.DecodeString(string(found[1]))
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("no public key in the form PEM")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	return key.(*rsa.PublicKey), nil
}

// indexOf is the file in a root for the index of a repository.
func indexOf(root, url string) string {
	return root + "/var/db/xbps/" + strings.NewReplacer(".", "_", "/", "_", ":", "_").Replace(url) + "/x86_64-repodata"
}

// xbpsSync downloads the index of each repository. Like xbps, it continues without those that it does
// not get.
func xbpsSync(root string, urls []string) error {
	for _, url := range urls {
		text, err := get(url + "/" + cmp.Or(os.Getenv("XBPS_ARCH"), "x86_64") + "-repodata")
		if err != nil {
			fmt.Fprintf(os.Stderr, "[reposync] failed to fetch file `%s': %v\n", url, err)
			continue
		}
		name := indexOf(root, url)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// trusted returns the key that root stores for a repository. Without one, xbps-install asks.
func trusted(root, url string) (*rsa.PublicKey, error) {
	data, err := os.ReadFile(indexOf(root, url))
	if err != nil {
		return nil, err
	}
	meta, err := member(data, "index-meta.plist")
	if err != nil {
		return nil, fmt.Errorf("%s is not signed: %w", url, err)
	}
	key, err := publicKey(meta)
	if err != nil {
		return nil, err
	}
	name := fingerprint(key)
	stored, err := os.ReadFile(root + "/var/db/xbps/keys/" + name + ".plist")
	if err != nil {
		return nil, fmt.Errorf("`%s' repository has been RSA signed by \"tests\"\nFingerprint: %s\n"+
			"Do you want to import this public key? [Y/n] EOF", url, name)
	}
	return publicKey(stored)
}

// member is a file of an index.
func member(index []byte, name string) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(index))
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if err != nil {
			return nil, err
		}
		if h.Name == name {
			return io.ReadAll(t)
		}
	}
}

// pkgver is the name of a package with its version.
func pkgver(name string) string {
	if strings.HasPrefix(name, "linux6.12") {
		return name + "-6.12.30_1"
	}
	return name + "-1_1"
}

// dryRun prints a line for each package, as xbps-install does. It reads the indexes without storing them.
func dryRun(urls, packages []string) error {
	var repository string
	var index []byte
	for _, url := range urls {
		text, err := get(url + "/" + os.Getenv("XBPS_ARCH") + "-repodata")
		if err == nil {
			repository = url
			index, err = member(text, "index.plist")
		}
		if err == nil {
			break
		}
	}
	for _, p := range packages {
		if index == nil {
			return fmt.Errorf("Package '%s' not found in repository pool.", p)
		}
		size := "1024"
		if _, of, ok := strings.Cut(string(index), "<key>"+p+"</key><dict><key>filename-size</key><integer>"); ok {
			size, _, _ = strings.Cut(of, "<")
		}
		fmt.Printf("%s install %s %s 1048576 %s\n", pkgver(p), os.Getenv("XBPS_ARCH"), repository, size)
	}
	return nil
}

// verified downloads packages that a cache does not have, and verifies their signatures. Intel's
// microcode is not free.
func verified(root string, urls []string, cache string, packages []string) error {
	for _, p := range packages {
		i := slices.IndexFunc(urls, func(u string) bool {
			_, err := os.Stat(indexOf(root, u)) // xbps leaves out a repository without an index
			return err == nil && strings.HasSuffix(u, "/nonfree") == (p == "intel-ucode")
		})
		if i < 0 {
			return fmt.Errorf("Package '%s' not found in repository pool.", p)
		}
		url := urls[i]
		key, err := trusted(root, url)
		if err != nil {
			return err
		}
		file := pkgver(p) + ".x86_64.xbps"
		text, err := cached(url, cache, file)
		if err != nil {
			return err
		}
		signature, err := cached(url, cache, file+".sig2")
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		if rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature) != nil {
			_ = os.Remove(cache + "/" + file)
			return fmt.Errorf("%s: the RSA signature is not valid", p)
		}
	}
	return nil
}

// cached reads a file of a cache, which downloads it if it does not have it.
func cached(url, cache, file string) ([]byte, error) {
	if text, err := os.ReadFile(cache + "/" + file); err == nil {
		return text, nil
	}
	text, err := get(url + "/" + file)
	if err != nil {
		return nil, err
	}
	part := fmt.Sprintf("%s/%s.%d", cache, file, os.Getpid()) // a process that was killed leaves no half of a file
	return text, errors.Join(os.MkdirAll(cache, 0o755), os.WriteFile(part, text, 0o644), os.Rename(part, cache+"/"+file))
}

// TestRoom stops an installation of Void before a package is downloaded, if the file system for the
// packages is smaller than the sizes in the index of the repository. It continues when there is more room.
func TestRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("begins an installation on a loop device")
	}
	m := newMachine(t, 1)
	m.powerOn()
	m.inside("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", "/var/tmp")
	m.xbps.sizes = map[string]int64{"linux-lts": 100 << 20}
	record := m.begin(m.plan(plainSpec), "room")
	// 32 MiB for indexes, 100 MiB for linux-lts, and the other packages and all signatures.
	out, err := m.run(record)
	if err == nil || !strings.Contains(out, "of free space, and the packages need 133MiB") ||
		!strings.Contains(out, "another download_dir") {
		t.Errorf("%v\n%s", err, out)
	}
	m.untouched()
	if left := m.inside("find", "/var/tmp", "-name", "*.xbps"); left != "" {
		t.Errorf("packages were downloaded: %s", left)
	}
	m.inside("mount", "-o", "remount,size=256m", "/var/tmp")
	if out, err := m.run(record); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestRepository installs Void from a repository with a signed index. Before the disk is touched,
// the installation stops if the installing system lacks the key of the specification, if the
// repository has no packages for the C library, and if a package has a wrong signature. It
// continues with the right package. The new system trusts that key alone.
func TestRepository(t *testing.T) {
	if testing.Short() {
		t.Skip("installs on a loop device")
	}
	m := newMachine(t, 1)
	other := newRepository(t, m.dir+"/keys") // another key that the installing system trusts
	text := plainSpec + "mirror_key: "
	m.powerOn()
	record := m.begin(m.plan(text+"60:ae:0c:d6:f0:95:17:80:bc:93:46:7a:89:af:a3:2d\n"), "stranger")
	if out, err := m.run(record); err == nil || !strings.Contains(out, "repository-key") {
		t.Fatalf("a key that is not there: %v\n%s", err, out)
	}
	if got := m.must("wipefs", m.disk); got != "" {
		t.Errorf("the disk was touched:\n%s", got)
	}

	record = m.begin(m.plan(plainSpec+"libc: musl\n"), "musl")
	if out, err := m.run(record); err == nil || !strings.Contains(out, "'base-system' not found in repository pool") {
		t.Fatalf("a repository without packages for musl: %v\n%s", err, out)
	}
	if got := m.must("wipefs", m.disk); got != "" {
		t.Errorf("the disk was touched:\n%s", got)
	}

	record = m.begin(m.plan(text+m.xbps.fingerprint+"\n"), "spoiled")
	m.xbps.spoiled = "zfs"
	m.inside("mkdir", "-p", "/var/tmp/bakeoff-install/void/cache") // of another installation
	if out, err := m.run(record); err == nil || !strings.Contains(out, "zfs: the RSA signature is not valid") {
		t.Fatalf("a spoiled package: %v\n%s", err, out)
	}
	if got := m.must("wipefs", m.disk); got != "" {
		t.Errorf("the disk was touched:\n%s", got)
	}
	m.xbps.spoiled = ""
	if out, err := m.run(record); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	keys, err := filepath.Glob(m.dir + "/keep/pool/zroot/ROOT/void/var/db/xbps/keys/*")
	if err != nil || len(keys) != 1 || filepath.Base(keys[0]) != m.xbps.fingerprint+".plist" {
		t.Errorf("the new system trusts %q, not only %s; there is also %s: %v", keys, m.xbps.fingerprint,
			other.fingerprint, err)
	}
}
