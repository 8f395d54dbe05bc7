package redisstore

import (
	"crypto/sha1" //nolint:gosec // see newScript
	"encoding/hex"
)

// The scripts. The server runs each script alone, by its own clock. Times are in microseconds. Fences are compared as text, because a
// number of Lua has only 53 bits.
//
// A server whose memory is full accepts no new operations, and lets existing operations continue. A replica refuses a script that
// lacks the flag no-writes, even if the script only reads. That is wanted, because a replica may lag behind.
const (
	refusedWhenFull = "#!lua\n"
	allowedWhenFull = "#!lua flags=allow-oom\n"
)

var (
	claimScript  = newScript(refusedWhenFull + swapText)
	changeScript = newScript(allowedWhenFull + swapText)
	readScript   = newScript(allowedWhenFull + readText)
	renewScript  = newScript(allowedWhenFull + renewText)
	listScript   = newScript(allowedWhenFull + listText)
)

// script is the text of a script, and the name by which a server knows it. redis.Script is not used, because it forgets its name if it
// is loaded in a pipeline.
type script struct{ text, sum string }

func newScript(text string) script {
	sum := sha1.Sum([]byte(text)) //nolint:gosec // it is a name
	return script{text, hex.EncodeToString(sum[:])}
}

// swapText writes the next state of a record, if the record matches the expectation.
//
// KEYS: the record; the key that is written so that WAIT has a write to wait for; the unfinished operations, by scope and key.
//
// ARGV: the expected fence; the expected nonce; 1 if the lease must be over; the time from which on the change is too late; the next
// lease; the next retention; 1 to keep the stored request; 1 to wait for replicas; the name of the operation among the unfinished; the
// next state; then the fields and their values.
const swapText = `
local record, sync, unfinished = KEYS[1], KEYS[2], KEYS[3]
local fence, nonce, over, stale, lease, retain, keep, wait, member, state = unpack(ARGV, 1, 10)
local running, done = '1', '2'
local grace = 3600000000 -- for which an expired record keeps its nonce

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local is = redis.call('HMGET', record, 'state', 'fence', 'nonce', 'lease', 'until')
local absent = not is[1] or is[5] and now >= tonumber(is[5])

local function expected()
	if fence == '0' or absent then return fence == '0' and absent end
	return is[1] ~= done and is[2] == fence and (nonce == '' or is[3] == nonce)
		and (over == '' or is[1] == running and is[4] and now >= tonumber(is[4]))
end

if not expected() then
	if wait == '1' then redis.call('SET', sync, '') end
	return {'taken', time[1] .. string.format('%06d', time[2]), redis.call('HGETALL', record)}
end
if fence == '0' and stale ~= '' and now >= tonumber(stale) then return {'stale'} end

if state == '0' or state == done then
	redis.call('ZREM', unfinished, member)
else
	redis.call('ZADD', unfinished, 0, member)
end
if state == '0' or absent then
	redis.call('DEL', record)
else
	redis.call('HDEL', record, 'nonce', 'lease', 'kind', 'status', 'header', 'body', 'point', 'calling', 'data')
	if keep == '' then redis.call('HDEL', record, 'fingerprint', 'request', 'trace', 'name') end
end
if state == '0' then return {'applied'} end

local set = {'state', state}
for i = 11, #ARGV do set[#set + 1] = ARGV[i] end
local function at(field, time) set[#set + 1], set[#set + 2] = field, string.format('%.0f', time) end
if absent then at('since', now) end
if state == running and lease ~= '' then at('lease', now + lease) end
if state == done and retain ~= '' then at('until', now + retain) end
redis.call('HSET', record, unpack(set))
if state == done and retain ~= '' then -- nothing else expires
	redis.call('PEXPIREAT', record, string.format('%.0f', (now + retain + grace) / 1000))
end
return {'applied'}
`

// readText returns the time and a record.
//
// KEYS: the record; the key that is written for WAIT. ARGV: 1 to wait for replicas.
const readText = `
local time = redis.call('TIME')
local record = redis.call('HGETALL', KEYS[1])
if #record > 0 and ARGV[1] == '1' then redis.call('SET', KEYS[2], '') end
return {time[1] .. string.format('%06d', time[2]), record}
`

// renewText extends the lease of a record that is held.
//
// KEYS: the record. ARGV: the fence and the nonce of the hold; the lease, or "" for a lease that does not end.
const renewText = `
local is = redis.call('HMGET', KEYS[1], 'state', 'fence', 'nonce')
if is[1] ~= '1' or is[2] ~= ARGV[1] or is[3] ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
	redis.call('HDEL', KEYS[1], 'lease')
else
	local time = redis.call('TIME')
	redis.call('HSET', KEYS[1], 'lease', string.format('%.0f', time[1] * 1000000 + time[2] + ARGV[3]))
end
return 1
`

// listText returns the time, and the names and some fields of unfinished operations, in order.
//
// KEYS: the unfinished operations. ARGV: the first name; the last name; how many; the prefix of the keys of records; the names of the fields.
const listText = `
local time = redis.call('TIME')
local list = {time[1] .. string.format('%06d', time[2])}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[3])) do
	local record, values = {}, redis.call('HMGET', ARGV[4] .. name, unpack(ARGV, 5))
	for i, value in ipairs(values) do
		record[2 * i - 1], record[2 * i] = ARGV[4 + i], value or ''
	end
	list[#list + 1], list[#list + 2] = name, record
end
return list
`
