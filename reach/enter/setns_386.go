//go:build linux

package enter

// sysSetns is missing in package syscall, which is older.
const sysSetns = 346
