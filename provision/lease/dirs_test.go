package lease

import "testing"

func TestDirs(t *testing.T) {
	getenv := func(m map[string]string) func(string) string { return func(k string) string { return m[k] } }
	for _, c := range []struct {
		env          map[string]string
		uid          int
		state, cache string
	}{
		{nil, 0, "/var/lib/bakeoff", "/var/cache/bakeoff"},
		{map[string]string{"HOME": "/home/u"}, 1000, "/home/u/.local/state/bakeoff", "/home/u/.cache/bakeoff"},
		{map[string]string{"HOME": "/home/u", "XDG_CACHE_HOME": "/x"}, 1000, "/home/u/.local/state/bakeoff", "/x/bakeoff"},
		{map[string]string{"BAKEOFF_STATE": "/s"}, 0, "/s", "/var/cache/bakeoff"},
	} {
		if s, k := Dirs(getenv(c.env), c.uid); s != c.state || k != c.cache {
			t.Errorf("%v as %d: %s and %s, want %s and %s", c.env, c.uid, s, k, c.state, c.cache)
		}
	}
}
