/* Another module. Its only argument is the name of its command, which replies 42. */
#include <stddef.h>

typedef int (*handler)(void *ctx, void **argv, int argc);

static int (*reply)(void *ctx, long long integer);

static int answer(void *ctx, void **argv, int argc) {
    (void)argv;
    (void)argc;
    return reply(ctx, 42);
}

int RedisModule_OnLoad(void *ctx, void **argv, int argc) {
    int (*get)(const char *name, void *function) = *(int (**)(const char *, void *))ctx;
    void (*set_attributes)(void *ctx, const char *name, int version, int api);
    const char *(*string)(void *string, size_t *length);
    int (*create)(void *ctx, const char *name, handler, const char *flags, int first, int last, int step);
    get("RedisModule_SetModuleAttribs", &set_attributes);
    get("RedisModule_StringPtrLen", &string);
    get("RedisModule_CreateCommand", &create);
    get("RedisModule_ReplyWithLongLong", &reply);
    set_attributes(ctx, "other", 1, 1);
    return argc == 1 ? create(ctx, string(argv[0], NULL), answer, "fast", 0, 0, 0) : 1;
}
