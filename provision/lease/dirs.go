package lease

// Dirs returns the directories for state and cache: those of BAKEOFF_STATE
// and BAKEOFF_CACHE, else /var/lib/bakeoff and /var/cache/bakeoff for root,
// else below the XDG directories of the user.
func Dirs(getenv func(string) string, uid int) (state, cache string) {
	dir := func(own, root, xdg, home string) string {
		switch {
		case getenv(own) != "":
			return getenv(own)
		case uid == 0:
			return root
		case getenv(xdg) != "":
			return getenv(xdg) + "/bakeoff"
		}
		return getenv("HOME") + home
	}
	return dir("BAKEOFF_STATE", "/var/lib/bakeoff", "XDG_STATE_HOME", "/.local/state/bakeoff"),
		dir("BAKEOFF_CACHE", "/var/cache/bakeoff", "XDG_CACHE_HOME", "/.cache/bakeoff")
}
