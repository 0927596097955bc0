package install

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"bakeoff/prepare/install/rescue"
	"bakeoff/provision/image"
	"bakeoff/reach/conn/local"
)

// getRescue returns the rescue system of a release from the cache, where bakeoff builds it if it
// is not there. It skips the test if Debian's mirror does not answer.
func getRescue(t *testing.T, cache, release, proxy string) rescue.System {
	t.Helper()
	b := rescue.Builder{Store: &image.Store{Dir: image.DirIn(cache), Host: local.Conn{}}, Proxy: proxy,
		Say: func(line string) { t.Log(line) }}
	r, err := b.Get(t.Context(), release)
	if err == nil {
		return r
	}
	if resp, herr := http.Head("http://deb.debian.org/debian/dists/" + release + "/InRelease"); herr != nil {
		t.Skipf("the rescue system is not in %s, and Debian's mirror does not answer: %v", cache, herr)
	} else {
		resp.Body.Close()
	}
	t.Fatal(err)
	return r
}

// keys makes the key of the tests, in a folder, if it is not there: installed systems that are
// kept accept it.
func keys(t *testing.T, dir string) (private, public string) {
	t.Helper()
	private = filepath.Join(dir, "key")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(private + ".pub"); err != nil { // written last
		os.Remove(private)
		out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", private).
			CombinedOutput()
		if err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	text, err := os.ReadFile(private + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return private, string(text)
}

// config writes a configuration of SSH for a guest at a port: for the rescue system, whose
// host key is known, and for the installed one, whose host key the first login learns.
func (b *bench) config() string {
	b.t.Helper()
	name := filepath.Join(b.dir, "ssh")
	text := b.r.SSH(b.port, b.private) + fmt.Sprintf("Host installed\n  HostKeyAlias installed\n"+
		"  UserKnownHostsFile %s\n  StrictHostKeyChecking accept-new\n  HostName 127.0.0.1\n  Port %d\n  User root\n"+
		"  IdentityFile %s\n  IdentitiesOnly yes\n  GlobalKnownHostsFile none\n  LogLevel ERROR\n",
		filepath.Join(b.dir, "known"), b.port, b.private)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	return name
}
