package shedlock.interop;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZonedDateTime;
import org.springframework.scheduling.support.CronExpression;

/** What Spring's {@code @Scheduled} makes of cron expressions. */
final class SpringCron {
    private SpringCron() {}

    /**
     * Answers with the slots, in seconds since 1970, that follow an instant, for each of the cases (expression,
     * zone, instant); with {@code null} for an expression that Spring refuses.
     */
    static JsonObject slots(JsonObject command) {
        JsonArray slots = new JsonArray();
        for (JsonElement one : command.getAsJsonArray("cases")) {
            slots.add(slots(one.getAsJsonArray(), command.get("count").getAsInt()));
        }
        JsonObject answer = new JsonObject();
        answer.add("slots", slots);
        return answer;
    }

    private static JsonElement slots(JsonArray one, int count) {
        CronExpression expression;
        try {
            expression = CronExpression.parse(one.get(0).getAsString());
        } catch (IllegalArgumentException refused) {
            return JsonNull.INSTANCE;
        }
        ZoneId zone = ZoneId.of(one.get(1).getAsString());
        ZonedDateTime at = Instant.ofEpochSecond(one.get(2).getAsLong()).atZone(zone);
        JsonArray slots = new JsonArray();
        while (slots.size() < count && (at = expression.next(at)) != null) {
            slots.add(at.toEpochSecond());
        }
        return slots;
    }
}
