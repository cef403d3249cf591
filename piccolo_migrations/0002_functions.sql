-- sha256 fb35b88a6f84384d6d5a253965bc03b8db5a28e61cbad1101969cd2ecc631b80
-- The functions that the service calls. Those of messages are in the next file.

-- Sets of states. `make migration` writes these functions from the states.py of each domain.
CREATE OR REPLACE FUNCTION is_held(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ('active', 'expired')
$$;

CREATE OR REPLACE FUNCTION is_live(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ('searching', 'active', 'expired')
$$;

CREATE OR REPLACE FUNCTION is_open(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ('active', 'expired', 'closing')
$$;

CREATE OR REPLACE FUNCTION is_unended(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ('searching', 'active', 'expired', 'closing')
$$;

CREATE OR REPLACE FUNCTION is_closable(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ('expired', 'closing')
$$;

CREATE OR REPLACE FUNCTION is_ended(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ('closing', 'completed')
$$;

CREATE OR REPLACE FUNCTION is_unpaired(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ('cancelled', 'failed')
$$;

CREATE OR REPLACE FUNCTION is_earning(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ('approved', 'auto_approved')
$$;

CREATE OR REPLACE FUNCTION is_open_refund(p_status TEXT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT p_status IN ('requested', 'pending')
$$;

-- Since when a mitra has been silent. Silence counts only while all processes of the mitra's channel could take
-- heartbeats, and a disturbance of single processes excuses it for a limited time (core/cluster/outages/rules.py,
-- docs/product.md#presence).

-- Return since when the processes of a kind could take heartbeats without a break. While none of them is alive, or one
-- may be cut off from the database, that is `p_now`.
CREATE OR REPLACE FUNCTION kind_able_since(p_kind TEXT, p_now TIMESTAMPTZ) RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN bool_or(lost_at > p_now)
    THEN least(max(CASE WHEN lost_at > p_now THEN since_at ELSE given_up_at END), p_now)
    ELSE p_now
  END
  FROM service_processes
  WHERE kind = p_kind
$$;

-- Return by how much a silence is excused at most. Rows carry GIVE_UP_S in service time, and EXCUSE_S is five times as
-- long.
CREATE OR REPLACE FUNCTION longest_excuse(p_now TIMESTAMPTZ) RETURNS INTERVAL LANGUAGE sql STABLE AS $$
  SELECT coalesce(5 * max(given_up_at - alive_at), interval '5 minutes')
  FROM service_processes
  WHERE lost_at > p_now
$$;

-- Return since when there was a process of a kind, without a break of more than a tenth of an excuse (BREAK_S); `p_now`
-- without one. The transaction in which the next process starts records each break as an outage.
CREATE OR REPLACE FUNCTION kind_served_since(p_kind TEXT, p_now TIMESTAMPTZ, p_excuse INTERVAL)
RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN EXISTS (SELECT 1 FROM service_processes WHERE kind = p_kind AND lost_at > p_now)
    THEN coalesce(
      (SELECT max(ended_at) FROM outages WHERE kind IN (p_kind, 'database') AND ended_at - began_at > p_excuse / 10),
      '-infinity'
    )
    ELSE p_now
  END
$$;

-- For each channel of heartbeats: since when all its processes could take them without a break, and since when there
-- was a process. A mitra who has just gone online has used neither channel yet: `any`.
CREATE OR REPLACE FUNCTION heartbeat_channels(p_now TIMESTAMPTZ)
RETURNS TABLE (
  channel TEXT, able_since TIMESTAMPTZ, served_since TIMESTAMPTZ, excuse INTERVAL
) LANGUAGE sql STABLE AS $$
  SELECT k.channel, k.able_since, k.served_since, x.excuse
  FROM (SELECT longest_excuse(p_now) AS excuse OFFSET 0) x
  CROSS JOIN LATERAL (
    SELECT
      kind_able_since('realtime', p_now) AS socket,
      kind_able_since('api', p_now) AS rest,
      kind_served_since('realtime', p_now, x.excuse) AS socket_served,
      kind_served_since('api', p_now, x.excuse) AS rest_served
    OFFSET 0
  ) able
  CROSS JOIN LATERAL (
    VALUES
      ('socket', able.socket, able.socket_served),
      ('rest', able.rest, able.rest_served),
      ('any', greatest(able.socket, able.rest), greatest(able.socket_served, able.rest_served))
  ) k (channel, able_since, served_since)
$$;

-- The rule: a silence does not begin before all processes of the channel could take heartbeats, unless that excuses it
-- for too long.
CREATE OR REPLACE FUNCTION silent_since(
  p_heartbeat_at TIMESTAMPTZ, p_able_since TIMESTAMPTZ, p_served_since TIMESTAMPTZ, p_excuse INTERVAL
)
RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT least(greatest(p_heartbeat_at, p_able_since), greatest(p_heartbeat_at, p_served_since) + p_excuse)
$$;

-- For each online mitra: since when they have been silent.
CREATE OR REPLACE FUNCTION mitra_silences(p_now TIMESTAMPTZ)
RETURNS TABLE (mitra_id UUID, last_heartbeat_at TIMESTAMPTZ, silent_since TIMESTAMPTZ) LANGUAGE sql STABLE AS $$
  SELECT
    o.mitra_id,
    o.last_heartbeat_at,
    silent_since(o.last_heartbeat_at, c.able_since, c.served_since, c.excuse)
  FROM heartbeat_channels(p_now) c
  JOIN mitra_online_status o ON o.heartbeat_channel = c.channel
  WHERE o.is_online
$$;

-- Return when the longest silence began; NULL when no mitra is online. It reads one index entry for each channel.
CREATE OR REPLACE FUNCTION longest_silence_since(p_now TIMESTAMPTZ) RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT min(silent_since(first.heartbeat_at, c.able_since, c.served_since, c.excuse))
  FROM heartbeat_channels(p_now) c
  JOIN LATERAL (
    SELECT min(last_heartbeat_at) AS heartbeat_at
    FROM mitra_online_status o
    WHERE o.is_online AND o.heartbeat_channel = c.channel
  ) first ON first.heartbeat_at IS NOT NULL
$$;

-- The rule: when a mitra's next presence check is due. A check is unanswered until a heartbeat follows it, or an outage
-- that excuses the silence: then the answer may have been lost. A silence never begins before the last heartbeat.
CREATE OR REPLACE FUNCTION presence_check_due(
  p_silent_since TIMESTAMPTZ, p_checked_at TIMESTAMPTZ, p_silence INTERVAL, p_pause INTERVAL
)
RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT greatest(p_silent_since + p_silence, CASE WHEN p_checked_at > p_silent_since THEN p_checked_at + p_pause END)
$$;

-- Return when the earliest presence check is due; NULL when no mitra is online. For each channel it reads the first
-- index entry without an unanswered check, and from the other index all mitras with one.
CREATE OR REPLACE FUNCTION next_presence_check(p_now TIMESTAMPTZ, p_silence INTERVAL, p_pause INTERVAL)
RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  WITH c AS MATERIALIZED (SELECT * FROM heartbeat_channels(p_now))
  SELECT least(
    (
      SELECT min(silent_since(o.last_heartbeat_at, c.able_since, c.served_since, c.excuse)) + p_silence
      FROM c
      CROSS JOIN LATERAL (
        SELECT o.last_heartbeat_at
        FROM mitra_online_status o
        WHERE
          o.is_online
          AND o.heartbeat_channel = c.channel
          AND (o.checked_at IS NULL OR o.checked_at <= o.last_heartbeat_at)
        ORDER BY o.last_heartbeat_at
        LIMIT 1
      ) o
    ),
    (
      SELECT min(presence_check_due(
        silent_since(o.last_heartbeat_at, c.able_since, c.served_since, c.excuse),
        o.checked_at,
        p_silence,
        p_pause
      ))
      FROM mitra_online_status o
      JOIN c ON c.channel = o.heartbeat_channel
      WHERE o.is_online AND o.checked_at > o.last_heartbeat_at
    )
  )
$$;

-- The parties of active sessions without a sign of life for `p_after`, and since when, apart from those who count as
-- absent already. Phones use sockets and REST, so silence counts only while both could take signs (channel `any`). A
-- party who has given no sign is silent since the session started, and none is silent since before the configuration
-- row was set: until then, signs were not stored.
CREATE OR REPLACE FUNCTION silent_parties(p_now TIMESTAMPTZ, p_after INTERVAL)
RETURNS TABLE (session_id UUID, user_type TEXT, since TIMESTAMPTZ) LANGUAGE sql STABLE AS $$
  SELECT s.id, party.user_type, silence.since
  FROM chat_sessions s
  LEFT JOIN session_presence p ON p.session_id = s.id
  CROSS JOIN LATERAL (
    VALUES
      ('customer', greatest(p.customer_seen_at, s.paired_at)),
      ('mitra', greatest(p.mitra_seen_at, s.paired_at))
  ) party (user_type, seen_at)
  JOIN heartbeat_channels(p_now) c ON c.channel = 'any'
  CROSS JOIN (SELECT max(updated_at) AS at FROM app_config WHERE key = 'peer_absent_seconds') switched
  CROSS JOIN LATERAL (
    SELECT greatest(silent_since(party.seen_at, c.able_since, c.served_since, c.excuse), switched.at) AS since
  ) silence
  WHERE s.status = 'active'
    AND s.expires_at > p_now
    AND party.seen_at <= p_now - p_after
    AND silence.since <= p_now - p_after
    AND NOT EXISTS (
      SELECT 1
      FROM session_absences a
      WHERE a.session_id = s.id AND a.user_type = party.user_type AND a.ended_at IS NULL
    )
$$;

-- The mitras who have a living auth session, once for each of these (docs/product.md#end-of-a-sign-in).
CREATE OR REPLACE FUNCTION signed_in_mitras(p_now TIMESTAMPTZ)
RETURNS TABLE (mitra_id UUID) LANGUAGE sql STABLE AS $$
  SELECT a.user_id
  FROM auth_sessions a
  WHERE a.user_type = 'mitra' AND a.revoked_at IS NULL AND a.expires_at > p_now
$$;

-- The active mitras who are online and signed in, with the number of sessions that they hold, and which of the other
-- conditions of docs/product.md#eligible-mitras they meet. LIMIT 1 instead of EXISTS: for the latter the planner
-- expects few mitras, and looks each of them up in every table that follows.
CREATE OR REPLACE FUNCTION online_mitras(
  p_now TIMESTAMPTZ, p_require_ping BOOLEAN, p_stale_seconds FLOAT8, p_capacity INT
)
RETURNS TABLE (mitra_id UUID, active_session_count INT, is_fresh BOOLEAN, has_room BOOLEAN) LANGUAGE sql STABLE AS $$
  SELECT
    m.id,
    load.sessions,
    NOT p_require_ping OR o.silent_since + make_interval(secs => p_stale_seconds) > p_now,
    load.sessions < p_capacity
  FROM mitras m
  JOIN mitra_silences(p_now) o ON o.mitra_id = m.id
  CROSS JOIN LATERAL (SELECT 1 FROM signed_in_mitras(p_now) WHERE mitra_id = m.id LIMIT 1) signed_in
  CROSS JOIN LATERAL (
    SELECT count(*)::int AS sessions
    FROM chat_sessions s
    WHERE s.mitra_id = m.id AND is_held(s.status)
  ) load
  WHERE m.is_active
$$;

-- The mitras who can take another session, with the number of sessions that they hold
-- (docs/product.md#eligible-mitras). The availability count, the blast, the targeted request and the accept all use
-- this function.
CREATE OR REPLACE FUNCTION free_mitras(
  p_now TIMESTAMPTZ, p_require_ping BOOLEAN, p_stale_seconds FLOAT8, p_capacity INT
)
RETURNS TABLE (mitra_id UUID, active_session_count INT) LANGUAGE sql STABLE AS $$
  SELECT o.mitra_id, o.active_session_count
  FROM online_mitras(p_now, p_require_ping, p_stale_seconds, p_capacity) o
  WHERE o.is_fresh AND o.has_room
$$;

-- Since when the clock of sessions stands; NULL if it runs. It stands while no realtime process has a lease, and until
-- the credits of an outage are committed. `p_scale` is the scale of service time.
CREATE OR REPLACE FUNCTION sessions_stand_since(p_scale FLOAT8) RETURNS TIMESTAMPTZ LANGUAGE sql STABLE AS $$
  SELECT least(
    (SELECT min(began_at) FROM outages WHERE credit_at IS NOT NULL AND credited_at IS NULL),
    (
      SELECT max(p.alive_at)
      FROM service_processes p
      WHERE p.kind = 'realtime'
      HAVING NOT bool_or(
        p.lost_at > (SELECT c.anchor + (clock_timestamp() - c.anchor) * p_scale FROM service_clock c)
      )
    )
  )
$$;

-- The payment request of a stored event without a session.
CREATE OR REPLACE FUNCTION payment_of_delivery(session_id UUID, payload TEXT) RETURNS UUID LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN session_id IS NULL THEN coalesce(
    payload::jsonb #>> '{payment_request,payment_request_id}', payload::jsonb ->> 'payment_request_id'
  )::uuid END
$$;

-- What is known of an event: from its delivery, or after that is deleted, from the trail.
CREATE OR REPLACE FUNCTION known_event(p_event_id UUID)
RETURNS TABLE (recipient_id UUID, event VARCHAR, session_id UUID, payment_request_id UUID) LANGUAGE sql STABLE AS $$
  (
    SELECT d.recipient_id, d.event, d.session_id, payment_of_delivery(d.session_id, d.payload)
    FROM deliveries d
    WHERE d.id = p_event_id
  )
  UNION ALL
  (
    SELECT t.recipient_id, t.event, t.session_id, t.payment_request_id
    FROM delivery_trail t
    WHERE t.event_id = p_event_id
    LIMIT 1
  )
  LIMIT 1
$$;

-- A text as searches compare it: in NFC and without case, in every locale of the database.
--
-- lower() and ILIKE depend on the locale, and fold only ASCII in the locale C. The lists are the simple case folding
-- of Unicode: each character of the first becomes the one at its place in the second. Most texts are ASCII and need
-- neither list. The function is not STRICT, so that PostgreSQL can inline it.
CREATE OR REPLACE FUNCTION folded(p_text TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE
    WHEN octet_length(p_text) = length(p_text) THEN lower(p_text COLLATE "C")
    ELSE translate(
      lower(normalize(p_text, NFC) COLLATE "C"),
      'µÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏÐÑÒÓÔÕÖØÙÚÛÜÝÞĀĂĄĆĈĊČĎĐĒĔĖĘĚĜĞĠĢĤĦĨĪĬĮİĲĴĶĹ'
      'ĻĽĿŁŃŅŇŊŌŎŐŒŔŖŘŚŜŞŠŢŤŦŨŪŬŮŰŲŴŶŸŹŻŽſƁƂƄƆƇƉƊƋƎƏƐƑƓƔƖƗƘƜƝƟƠƢƤƦƧ'
      'ƩƬƮƯƱƲƳƵƷƸƼǄǅǇǈǊǋǍǏǑǓǕǗǙǛǞǠǢǤǦǨǪǬǮǱǲǴǶǷǸǺǼǾȀȂȄȆȈȊȌȎȐȒȔȖȘȚȜȞȠ'
      'ȢȤȦȨȪȬȮȰȲȺȻȽȾɁɃɄɅɆɈɊɌɎͅͰͲͶͿΆΈΉΊΌΎΏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩΪΫ'
      'ςϏϐϑϕϖϘϚϜϞϠϢϤϦϨϪϬϮϰϱϴϵϷϹϺϽϾϿЀЁЂЃЄЅІЇЈЉЊЋЌЍЎЏАБВГДЕЖЗИЙКЛМНОП'
      'РСТУФХЦЧШЩЪЫЬЭЮЯѠѢѤѦѨѪѬѮѰѲѴѶѸѺѼѾҀҊҌҎҐҒҔҖҘҚҜҞҠҢҤҦҨҪҬҮҰҲҴҶҸҺҼҾ'
      'ӀӁӃӅӇӉӋӍӐӒӔӖӘӚӜӞӠӢӤӦӨӪӬӮӰӲӴӶӸӺӼӾԀԂԄԆԈԊԌԎԐԒԔԖԘԚԜԞԠԢԤԦԨԪԬԮԱԲԳԴ'
      'ԵԶԷԸԹԺԻԼԽԾԿՀՁՂՃՄՅՆՇՈՉՊՋՌՍՎՏՐՑՒՓՔՕՖႠႡႢႣႤႥႦႧႨႩႪႫႬႭႮႯႰႱႲႳႴႵႶႷႸႹ'
      'ႺႻႼႽႾႿჀჁჂჃჄჅჇჍᏸᏹᏺᏻᏼᏽᲀᲁᲂᲃᲄᲅᲆᲇᲈᲐᲑᲒᲓᲔᲕᲖᲗᲘᲙᲚᲛᲜᲝᲞᲟᲠᲡᲢᲣᲤᲥᲦᲧᲨᲩᲪᲫᲬᲭᲮ'
      'ᲯᲰᲱᲲᲳᲴᲵᲶᲷᲸᲹᲺᲽᲾᲿḀḂḄḆḈḊḌḎḐḒḔḖḘḚḜḞḠḢḤḦḨḪḬḮḰḲḴḶḸḺḼḾṀṂṄṆṈṊṌṎṐṒṔṖṘ'
      'ṚṜṞṠṢṤṦṨṪṬṮṰṲṴṶṸṺṼṾẀẂẄẆẈẊẌẎẐẒẔẛẞẠẢẤẦẨẪẬẮẰẲẴẶẸẺẼẾỀỂỄỆỈỊỌỎỐỒỔỖ'
      'ỘỚỜỞỠỢỤỦỨỪỬỮỰỲỴỶỸỺỼỾἈἉἊἋἌἍἎἏἘἙἚἛἜἝἨἩἪἫἬἭἮἯἸἹἺἻἼἽἾἿὈὉὊὋὌὍὙὛὝὟ'
      'ὨὩὪὫὬὭὮὯᾈᾉᾊᾋᾌᾍᾎᾏᾘᾙᾚᾛᾜᾝᾞᾟᾨᾩᾪᾫᾬᾭᾮᾯᾸᾹᾺᾼῈῊῌῘῙῚῨῩῪῬῸῺῼℲⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ'
      'ⅪⅫⅬⅭⅮⅯↃⒶⒷⒸⒹⒺⒻⒼⒽⒾⒿⓀⓁⓂⓃⓄⓅⓆⓇⓈⓉⓊⓋⓌⓍⓎⓏⰀⰁⰂⰃⰄⰅⰆⰇⰈⰉⰊⰋⰌⰍⰎⰏⰐⰑⰒⰓⰔⰕⰖⰗⰘⰙⰚ'
      'ⰛⰜⰝⰞⰟⰠⰡⰢⰣⰤⰥⰦⰧⰨⰩⰪⰫⰬⰭⰮⰯⱠⱢⱣⱤⱧⱩⱫⱭⱮⱯⱰⱲⱵⱾⱿⲀⲂⲄⲆⲈⲊⲌⲎⲐⲒⲔⲖⲘⲚⲜⲞⲠⲢⲤⲦⲨⲪⲬⲮ'
      'ⲰⲲⲴⲶⲸⲺⲼⲾⳀⳂⳄⳆⳈⳊⳌⳎⳐⳒⳔⳖⳘⳚⳜⳞⳠⳢⳫⳭⳲꙀꙂꙄꙆꙈꙊꙌꙎꙐꙒꙔꙖꙘꙚꙜꙞꙠꙢꙤꙦꙨꙪꙬꚀꚂꚄꚆꚈꚊꚌꚎ'
      'ꚐꚒꚔꚖꚘꚚꜢꜤꜦꜨꜪꜬꜮꜲꜴꜶꜸꜺꜼꜾꝀꝂꝄꝆꝈꝊꝌꝎꝐꝒꝔꝖꝘꝚꝜꝞꝠꝢꝤꝦꝨꝪꝬꝮꝹꝻꝽꝾꞀꞂꞄꞆꞋꞍꞐꞒꞖꞘꞚꞜ'
      'ꞞꞠꞢꞤꞦꞨꞪꞫꞬꞭꞮꞰꞱꞲꞳꞴꞶꞸꞺꞼꞾꟀꟂꟄꟅꟆꟇꟉꟐꟖꟘꟵꭰꭱꭲꭳꭴꭵꭶꭷꭸꭹꭺꭻꭼꭽꭾꭿꮀꮁꮂꮃꮄꮅꮆꮇꮈꮉꮊꮋ'
      'ꮌꮍꮎꮏꮐꮑꮒꮓꮔꮕꮖꮗꮘꮙꮚꮛꮜꮝꮞꮟꮠꮡꮢꮣꮤꮥꮦꮧꮨꮩꮪꮫꮬꮭꮮꮯꮰꮱꮲꮳꮴꮵꮶꮷꮸꮹꮺꮻꮼꮽꮾꮿＡＢＣＤＥＦＧＨ'
      'ＩＪＫＬＭＮＯＰＱＲＳＴＵＶＷＸＹＺ𐐀𐐁𐐂𐐃𐐄𐐅𐐆𐐇𐐈𐐉𐐊𐐋𐐌𐐍𐐎𐐏𐐐𐐑𐐒𐐓𐐔𐐕𐐖𐐗𐐘𐐙𐐚𐐛𐐜𐐝𐐞𐐟𐐠𐐡𐐢𐐣𐐤𐐥𐐦𐐧𐒰𐒱'
      '𐒲𐒳𐒴𐒵𐒶𐒷𐒸𐒹𐒺𐒻𐒼𐒽𐒾𐒿𐓀𐓁𐓂𐓃𐓄𐓅𐓆𐓇𐓈𐓉𐓊𐓋𐓌𐓍𐓎𐓏𐓐𐓑𐓒𐓓𐕰𐕱𐕲𐕳𐕴𐕵𐕶𐕷𐕸𐕹𐕺𐕼𐕽𐕾𐕿𐖀𐖁𐖂𐖃𐖄𐖅𐖆𐖇𐖈𐖉𐖊'
      '𐖌𐖍𐖎𐖏𐖐𐖑𐖒𐖔𐖕𐲀𐲁𐲂𐲃𐲄𐲅𐲆𐲇𐲈𐲉𐲊𐲋𐲌𐲍𐲎𐲏𐲐𐲑𐲒𐲓𐲔𐲕𐲖𐲗𐲘𐲙𐲚𐲛𐲜𐲝𐲞𐲟𐲠𐲡𐲢𐲣𐲤𐲥𐲦𐲧𐲨𐲩𐲪𐲫𐲬𐲭𐲮𐲯𐲰𐲱𐲲'
      '𑢠𑢡𑢢𑢣𑢤𑢥𑢦𑢧𑢨𑢩𑢪𑢫𑢬𑢭𑢮𑢯𑢰𑢱𑢲𑢳𑢴𑢵𑢶𑢷𑢸𑢹𑢺𑢻𑢼𑢽𑢾𑢿𖹀𖹁𖹂𖹃𖹄𖹅𖹆𖹇𖹈𖹉𖹊𖹋𖹌𖹍𖹎𖹏𖹐𖹑𖹒𖹓𖹔𖹕𖹖𖹗𖹘𖹙𖹚𖹛'
      '𖹜𖹝𖹞𖹟𞤀𞤁𞤂𞤃𞤄𞤅𞤆𞤇𞤈𞤉𞤊𞤋𞤌𞤍𞤎𞤏𞤐𞤑𞤒𞤓𞤔𞤕𞤖𞤗𞤘𞤙𞤚𞤛𞤜𞤝𞤞𞤟𞤠𞤡',
      'μàáâãäåæçèéêëìíîïðñòóôõöøùúûüýþāăąćĉċčďđēĕėęěĝğġģĥħĩīĭįiĳĵķĺ'
      'ļľŀłńņňŋōŏőœŕŗřśŝşšţťŧũūŭůűųŵŷÿźżžsɓƃƅɔƈɖɗƌǝəɛƒɠɣɩɨƙɯɲɵơƣƥʀƨ'
      'ʃƭʈưʊʋƴƶʒƹƽǆǆǉǉǌǌǎǐǒǔǖǘǚǜǟǡǣǥǧǩǫǭǯǳǳǵƕƿǹǻǽǿȁȃȅȇȉȋȍȏȑȓȕȗșțȝȟƞ'
      'ȣȥȧȩȫȭȯȱȳⱥȼƚⱦɂƀʉʌɇɉɋɍɏιͱͳͷϳάέήίόύώαβγδεζηθικλμνξοπρστυφχψωϊϋ'
      'σϗβθφπϙϛϝϟϡϣϥϧϩϫϭϯκρθεϸϲϻͻͼͽѐёђѓєѕіїјљњћќѝўџабвгдежзийклмноп'
      'рстуфхцчшщъыьэюяѡѣѥѧѩѫѭѯѱѳѵѷѹѻѽѿҁҋҍҏґғҕҗҙқҝҟҡңҥҧҩҫҭүұҳҵҷҹһҽҿ'
      'ӏӂӄӆӈӊӌӎӑӓӕӗәӛӝӟӡӣӥӧөӫӭӯӱӳӵӷӹӻӽӿԁԃԅԇԉԋԍԏԑԓԕԗԙԛԝԟԡԣԥԧԩԫԭԯաբգդ'
      'եզէըթժիլխծկհձղճմյնշոչպջռսվտրցւփքօֆⴀⴁⴂⴃⴄⴅⴆⴇⴈⴉⴊⴋⴌⴍⴎⴏⴐⴑⴒⴓⴔⴕⴖⴗⴘⴙ'
      'ⴚⴛⴜⴝⴞⴟⴠⴡⴢⴣⴤⴥⴧⴭᏰᏱᏲᏳᏴᏵвдосттъѣꙋაბგდევზთიკლმნოპჟრსტუფქღყშჩცძწჭხ'
      'ჯჰჱჲჳჴჵჶჷჸჹჺჽჾჿḁḃḅḇḉḋḍḏḑḓḕḗḙḛḝḟḡḣḥḧḩḫḭḯḱḳḵḷḹḻḽḿṁṃṅṇṉṋṍṏṑṓṕṗṙ'
      'ṛṝṟṡṣṥṧṩṫṭṯṱṳṵṷṹṻṽṿẁẃẅẇẉẋẍẏẑẓẕṡßạảấầẩẫậắằẳẵặẹẻẽếềểễệỉịọỏốồổỗ'
      'ộớờởỡợụủứừửữựỳỵỷỹỻỽỿἀἁἂἃἄἅἆἇἐἑἒἓἔἕἠἡἢἣἤἥἦἧἰἱἲἳἴἵἶἷὀὁὂὃὄὅὑὓὕὗ'
      'ὠὡὢὣὤὥὦὧᾀᾁᾂᾃᾄᾅᾆᾇᾐᾑᾒᾓᾔᾕᾖᾗᾠᾡᾢᾣᾤᾥᾦᾧᾰᾱὰᾳὲὴῃῐῑὶῠῡὺῥὸὼῳⅎⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹ'
      'ⅺⅻⅼⅽⅾⅿↄⓐⓑⓒⓓⓔⓕⓖⓗⓘⓙⓚⓛⓜⓝⓞⓟⓠⓡⓢⓣⓤⓥⓦⓧⓨⓩⰰⰱⰲⰳⰴⰵⰶⰷⰸⰹⰺⰻⰼⰽⰾⰿⱀⱁⱂⱃⱄⱅⱆⱇⱈⱉⱊ'
      'ⱋⱌⱍⱎⱏⱐⱑⱒⱓⱔⱕⱖⱗⱘⱙⱚⱛⱜⱝⱞⱟⱡɫᵽɽⱨⱪⱬɑɱɐɒⱳⱶȿɀⲁⲃⲅⲇⲉⲋⲍⲏⲑⲓⲕⲗⲙⲛⲝⲟⲡⲣⲥⲧⲩⲫⲭⲯ'
      'ⲱⲳⲵⲷⲹⲻⲽⲿⳁⳃⳅⳇⳉⳋⳍⳏⳑⳓⳕⳗⳙⳛⳝⳟⳡⳣⳬⳮⳳꙁꙃꙅꙇꙉꙋꙍꙏꙑꙓꙕꙗꙙꙛꙝꙟꙡꙣꙥꙧꙩꙫꙭꚁꚃꚅꚇꚉꚋꚍꚏ'
      'ꚑꚓꚕꚗꚙꚛꜣꜥꜧꜩꜫꜭꜯꜳꜵꜷꜹꜻꜽꜿꝁꝃꝅꝇꝉꝋꝍꝏꝑꝓꝕꝗꝙꝛꝝꝟꝡꝣꝥꝧꝩꝫꝭꝯꝺꝼᵹꝿꞁꞃꞅꞇꞌɥꞑꞓꞗꞙꞛꞝ'
      'ꞟꞡꞣꞥꞧꞩɦɜɡɬɪʞʇʝꭓꞵꞷꞹꞻꞽꞿꟁꟃꞔʂᶎꟈꟊꟑꟗꟙꟶᎠᎡᎢᎣᎤᎥᎦᎧᎨᎩᎪᎫᎬᎭᎮᎯᎰᎱᎲᎳᎴᎵᎶᎷᎸᎹᎺᎻ'
      'ᎼᎽᎾᎿᏀᏁᏂᏃᏄᏅᏆᏇᏈᏉᏊᏋᏌᏍᏎᏏᏐᏑᏒᏓᏔᏕᏖᏗᏘᏙᏚᏛᏜᏝᏞᏟᏠᏡᏢᏣᏤᏥᏦᏧᏨᏩᏪᏫᏬᏭᏮᏯａｂｃｄｅｆｇｈ'
      'ｉｊｋｌｍｎｏｐｑｒｓｔｕｖｗｘｙｚ𐐨𐐩𐐪𐐫𐐬𐐭𐐮𐐯𐐰𐐱𐐲𐐳𐐴𐐵𐐶𐐷𐐸𐐹𐐺𐐻𐐼𐐽𐐾𐐿𐑀𐑁𐑂𐑃𐑄𐑅𐑆𐑇𐑈𐑉𐑊𐑋𐑌𐑍𐑎𐑏𐓘𐓙'
      '𐓚𐓛𐓜𐓝𐓞𐓟𐓠𐓡𐓢𐓣𐓤𐓥𐓦𐓧𐓨𐓩𐓪𐓫𐓬𐓭𐓮𐓯𐓰𐓱𐓲𐓳𐓴𐓵𐓶𐓷𐓸𐓹𐓺𐓻𐖗𐖘𐖙𐖚𐖛𐖜𐖝𐖞𐖟𐖠𐖡𐖣𐖤𐖥𐖦𐖧𐖨𐖩𐖪𐖫𐖬𐖭𐖮𐖯𐖰𐖱'
      '𐖳𐖴𐖵𐖶𐖷𐖸𐖹𐖻𐖼𐳀𐳁𐳂𐳃𐳄𐳅𐳆𐳇𐳈𐳉𐳊𐳋𐳌𐳍𐳎𐳏𐳐𐳑𐳒𐳓𐳔𐳕𐳖𐳗𐳘𐳙𐳚𐳛𐳜𐳝𐳞𐳟𐳠𐳡𐳢𐳣𐳤𐳥𐳦𐳧𐳨𐳩𐳪𐳫𐳬𐳭𐳮𐳯𐳰𐳱𐳲'
      '𑣀𑣁𑣂𑣃𑣄𑣅𑣆𑣇𑣈𑣉𑣊𑣋𑣌𑣍𑣎𑣏𑣐𑣑𑣒𑣓𑣔𑣕𑣖𑣗𑣘𑣙𑣚𑣛𑣜𑣝𑣞𑣟𖹠𖹡𖹢𖹣𖹤𖹥𖹦𖹧𖹨𖹩𖹪𖹫𖹬𖹭𖹮𖹯𖹰𖹱𖹲𖹳𖹴𖹵𖹶𖹷𖹸𖹹𖹺𖹻'
      '𖹼𖹽𖹾𖹿𞤢𞤣𞤤𞤥𞤦𞤧𞤨𞤩𞤪𞤫𞤬𞤭𞤮𞤯𞤰𞤱𞤲𞤳𞤴𞤵𞤶𞤷𞤸𞤹𞤺𞤻𞤼𞤽𞤾𞤿𞥀𞥁𞥂𞥃'
    )
  END
$$;

-- The mitras who have a block with a customer, of either side: with the account, if the customer has joined one. None
-- for a customer who is null. A search, a targeted request, an acceptance and the history all use this function.
CREATE OR REPLACE FUNCTION blocked_mitras(p_customer UUID) RETURNS TABLE (mitra_id UUID) LANGUAGE sql STABLE AS $$
  SELECT b.mitra_id
  FROM customers c
  JOIN blocks b ON b.customer_id = coalesce(c.account_belongs_to, c.id)
  WHERE c.id = p_customer
$$;
